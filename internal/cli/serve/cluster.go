package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/config"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/peers"
)

// hubWait is how long the hub of this host may take to end.
const hubWait = 10 * time.Second

// lockWait is how long to wait until another host of this machine is no longer the same node.
const lockWait = time.Second

// beNode makes this process the configured node. All hosts of a user share the configuration of the node, whatever
// directory they serve, but only one process of the machine can be the node. beNode takes a lock; unlock releases it.
func beNode(ctx context.Context, m *settings.Membership) (unlock func(), err error) {
	dir, err := stateOf("cluster", append([]string{m.Join, m.Node, m.Name, m.Hub.Listen}, m.URLs...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	return file.LockDirContext(ctx, dir)
}

// stateOf creates a state directory beside those of hosts. what names its kind; words identify it within the kind.
func stateOf(what string, words ...string) (dir string, err error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	dir = filepath.Join(filepath.Dir(state), "."+what+"-"+hex.EncodeToString(sum[:8]))
	return dir, os.MkdirAll(dir, 0o700)
}

// cluster starts the configured hub and creates this host's node. Call end after the host is closed.
func (r *run) cluster(ctx context.Context, cfg *config.Config) (end func() error, err error) {
	m := cfg.Cluster
	end = func() error { return nil }
	if !m.Joins() && m.Hub.Listen == "" {
		return end, nil
	}
	unlock, err := beNode(ctx, &m)
	if err != nil { // all hosts of the user share the configuration, and another one is the node
		r.log.Warn("this host is not in the cluster of the configuration: another host of this machine is that node",
			"next", "exthost serve --cluster FILE, with an invitation of its own")
		return end, nil
	}
	end = func() error { unlock(); return nil }
	if m.Hub.Listen != "" {
		store, err := stateOf("hub", m.Hub.Dir)
		if err != nil {
			unlock()
			return end, err
		}
		h, err := hub.Open(ctx,
			hub.Options{
				Dir:    m.Hub.Dir,
				Listen: m.Hub.Listen,
				Routes: m.Hub.RoutesListen(),
				Peers:  m.Hub.Peers,
				Store:  store,
				Log:    r.log,
			})
		if err != nil {
			unlock()
			return end, &console.Error{
				Code: console.ExitInvalid,
				Text: "cluster.hub: " + err.Error(),
				Hint: "exthost cluster init makes its files; free the address, or change cluster.hub.listen",
			}
		}
		r.log.Info("the hub of the cluster takes nodes", "at", m.Hub.Listen)
		end = func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubWait)
			defer cancel()
			defer unlock()
			return h.Close(ctx)
		}
	}
	if !m.Joins() {
		return end, nil
	}
	r.node, err = cluster.New(cluster.Options{Settings: m, Version: exthost.Version(), Log: r.log})
	if err != nil {
		return end, errors.Join(err, end())
	}
	return end, nil
}

// member returns the node as an interface, nil without a node.
func (r *run) member() peers.Cluster {
	if r.node == nil {
		return nil
	}
	return r.node
}
