package serve

import (
	"context"
	"errors"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/peers"
)

// hubWait bounds the start and the end of the hub of this host.
const hubWait = 10 * time.Second

// cluster starts the hub of the configuration, and makes the node that the host is; nil for none.
// Call end after the host is closed.
func (r *run) cluster(ctx context.Context, cfg *config.Config) (node peers.Cluster, end func() error, err error) {
	m := cfg.Cluster
	end = func() error { return nil }
	if m.Hub.Listen != "" {
		starting, cancel := context.WithTimeout(ctx, hubWait)
		defer cancel()
		h, err := hub.Open(starting, hub.Options{Dir: m.Hub.Dir, Listen: m.Hub.Listen, Routes: m.Hub.RoutesListen(), Peers: m.Hub.Peers, Log: r.log})
		if err != nil {
			return nil, end, &console.Error{Code: console.ExitInvalid, Text: "cluster.hub: " + err.Error(), Hint: "exthost cluster init makes its files; free the address, or change cluster.hub.listen"}
		}
		r.log.Info("the hub of the cluster takes nodes", "at", m.Hub.Listen)
		end = func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubWait)
			defer cancel()
			return h.Close(ctx)
		}
	}
	if !m.Joins() {
		return nil, end, nil
	}
	n, err := cluster.New(cluster.Options{Settings: m, Version: exthost.Version(), Log: r.log})
	if err != nil {
		return nil, end, errors.Join(err, end())
	}
	return n, end, nil
}
