package cluster

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/glob"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// Options of a [Node].
type Options struct {
	Cluster string // the name of the cluster; default "main"
	Node    string // the name of this node, which no other has; required
	Version string // of exthost, shown to others
	Servers Servers

	Share []Share // what others may call; the first that selects an extension counts; default: all as mine
	Use   []Use   // what of others is listed here; default: all

	MaxCalls int   // of other nodes at once; beyond, they are refused as overloaded; default 1024
	MaxBody  int64 // bytes of params and results; default 16 MiB
	MaxTools int   // of other nodes that are listed; default 2000

	Pulse   time.Duration // how often a node names its open calls; default 250 ms
	Grace   time.Duration // for how long a node may be away and come back; default 2 s
	Silence time.Duration // after which a node that says nothing is lost; default 10 s
	Forget  time.Duration // for how long tools of a lost node stay listed; default 30 s

	Log *slog.Logger // nil logs nothing
}

// Servers say how to reach the NATS servers of a cluster, and as whom.
type Servers struct {
	URLs []string    // nats://host:port or tls://host:port; required
	TLS  *tls.Config // nil: as the servers ask, with the certificates of the system

	JWT      string                       // of the user; signed for with Sign
	NKey     string                       // the public key of a user without a JWT
	Sign     func([]byte) ([]byte, error) // signs what a server asks to
	User     string
	Password string
	Token    string
}

// Share says as what extensions are shared.
type Share struct {
	Extensions []string // globs of ids
	As         string   // [peers.AsMine], [peers.AsReplicas] or "none"
}

// Use selects extensions of other nodes.
type Use struct {
	Nodes      []string // globs of names
	Extensions []string // globs of ids there
}

// shareNone is the value of Share.As of what is not shared.
const shareNone = "none"

func (o Options) withDefaults() (Options, error) {
	o.Cluster = cmp.Or(o.Cluster, "main")
	for _, name := range []string{o.Cluster, o.Node} {
		if err := wire.CheckName(name); err != nil {
			return o, protocol.Errorf(protocol.ConfigInvalid, "cluster: %w", err)
		}
	}
	if len(o.Servers.URLs) == 0 {
		return o, protocol.Errorf(protocol.ConfigInvalid, "cluster: no server is stated; state cluster.join or cluster.urls")
	}
	for _, s := range o.Share {
		if s.As != peers.AsMine && s.As != peers.AsReplicas && s.As != shareNone {
			return o, protocol.Errorf(protocol.ConfigInvalid, "cluster: share: as is mine, replicas or none, and not %q", s.As)
		}
	}
	o.MaxBody = cmp.Or(o.MaxBody, 16<<20)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o, nil
}

// sharedAs returns as what an extension is shared; "none" where it is not.
func (o *Options) sharedAs(id string) string {
	if len(o.Share) == 0 {
		return peers.AsMine
	}
	for _, s := range o.Share {
		if matches(s.Extensions, id) {
			return s.As
		}
	}
	return shareNone
}

func (o *Options) uses(node, extension string) bool {
	if len(o.Use) == 0 {
		return true
	}
	for _, u := range o.Use {
		if matches(u.Nodes, node) && matches(u.Extensions, extension) {
			return true
		}
	}
	return false
}

func matches(globs []string, name string) bool { return glob.List(globs).Match(name) }
