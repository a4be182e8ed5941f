package cluster

import (
	"cmp"
	"log/slog"

	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/protocol"
)

// Options of a [Node].
type Options struct {
	Settings cluster.Membership // start from cluster.Default
	Version  string             // of exthost, shown to other nodes
	MaxBody  int64              // bytes of the params or the result of a call; default 16 MiB
	Log      *slog.Logger       // default: discard
}

// read fills in defaults and reads the credentials. Its errors are config_invalid.
func (o *Options) read() (*credentials.Credentials, error) {
	m := &o.Settings
	if !m.Joins() {
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"cluster: it is not stated where the servers are; state cluster.join, or cluster.urls for a NATS of "+
				"your own")
	}
	found, err := credentials.Of(m)
	if err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "cluster: %w", err)
	}
	m.Name = cmp.Or(m.Name, found.Cluster, "main")
	m.Node = cmp.Or(m.Node, found.Node, cluster.NodeOfHost())
	switch {
	case m.Node == "":
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"cluster: the name of this machine cannot be the name of a node; state cluster.node")
	case found.Node != "" && m.Node != found.Node:
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"cluster: %s is the invitation of node %s, and this is %s; exthost cluster invite %s", m.Join, found.Node,
			m.Node, m.Node)
	case found.Cluster != "" && m.Name != found.Cluster:
		return nil, protocol.Errorf(protocol.ConfigInvalid, "cluster: %s is an invitation to cluster %s, and not to %s",
			m.Join, found.Cluster, m.Name)
	}
	for _, name := range []string{m.Name, m.Node} {
		if err := cluster.CheckName(name); err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "cluster: %w", err)
		}
	}
	o.MaxBody = cmp.Or(o.MaxBody, 16<<20)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return found, nil
}

// sharedAs returns how an extension is shared, or cluster.ShareNone.
func (o *Options) sharedAs(id string) string {
	for _, s := range o.Settings.Share {
		if glob.List(s.Extensions).Match(id) {
			return s.As
		}
	}
	return cluster.ShareNone
}

// uses reports whether this host uses an extension of a remote node.
func (o *Options) uses(node, extension string) bool {
	for _, u := range o.Settings.Use {
		if glob.List(u.Nodes).Match(node) && glob.List(u.Extensions).Match(extension) {
			return true
		}
	}
	return false
}
