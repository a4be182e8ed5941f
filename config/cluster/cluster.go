// Package cluster defines the section cluster of a configuration: how a host joins others, and what it shares.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/manifest"
)

// Membership joins the host to a cluster of hosts. The whole section is not allowed in a project's file.
type Membership struct {
	// the file of exthost cluster invite for this node; default: none
	Join string `json:"join,omitempty" path:"true"`
	// your own NATS servers instead of join, such as tls://nats.example:4222
	URLs  []string `json:"urls,omitempty"`
	Creds string   `json:"creds,omitempty" path:"true"` // with urls: a NATS credentials file
	// with urls: a file with a NATS user's seed, instead of creds
	NKey string `json:"nkey,omitempty" path:"true"`
	// with urls: TLS certificates; default: the system's
	TLS Certificates `json:"tls,omitzero"`

	Name string `json:"name,omitempty"` // name of the cluster; default: the name in join, else main
	// this host's name in the cluster, unique among its nodes; default: the name in join, else the host name
	Node string `json:"node,omitempty"`

	// what other nodes see of this host's extensions: the first match counts, the rest is not shared; default:
	// all, as mine
	Share []Sharing `json:"share"`
	Use   []Use     `json:"use"` // which remote extensions are listed here; default all
	// nodes whose operators may answer approvals, restart, disable, enable and reload extensions, and read the
	// audit log here; default none
	Operators []string `json:"operators"`

	// maximum number of concurrent calls from other nodes; more are refused as overloaded; default 1024
	MaxCalls int `json:"max_calls" jsonschema:"minimum=1,maximum=1000000"`
	// maximum number of listed remote tools; default 2000
	MaxTools int `json:"max_tools" jsonschema:"minimum=0,maximum=100000"`
	// interval at which a node reports its open calls, if it has any; default 250ms
	Pulse manifest.Duration `json:"pulse"`
	// how long a node may be unreachable before its calls fail with node_lost; default 2s
	Grace manifest.Duration `json:"grace"`
	// how long a node may be silent before its calls fail with node_lost; default 10s
	Silence manifest.Duration `json:"silence"`
	// how long the tools of a node that vanished without leaving stay listed; default 30s
	Forget manifest.Duration `json:"forget"`

	Hub Hub `json:"hub,omitzero"` // a NATS server in this host; default: none
}

// Certificates are the TLS certificates for NATS servers other than a hub, all PEM files.
type Certificates struct {
	// authority that signed the servers' certificates; default: the system's
	CA   string `json:"ca,omitempty" path:"true"`
	Cert string `json:"cert,omitempty" path:"true"` // this host's client certificate, with key
	Key  string `json:"key,omitempty" path:"true"`  // its private key
}

// The values of [Sharing.As].
const (
	ShareMine     = "mine"     // as NODE.ID: at this node only
	ShareReplicas = "replicas" // as ID: any node that shares it as replicas may answer
	ShareNone     = "none"     // not at all
)

// Sharing sets how extensions appear at other nodes: the first match counts; without a list, all are shared as
// mine.
type Sharing struct {
	Extensions []string `json:"extensions"` // globs of ids
	// mine: as NODE.ID, at this node only; replicas: as ID, at any node that shares it; none: not shared
	As string `json:"as" jsonschema:"enum=mine,enum=replicas,enum=none"`
}

// Use selects the remote extensions that are listed here; without a list, all.
type Use struct {
	Nodes      []string `json:"nodes"`      // globs of nodes
	Extensions []string `json:"extensions"` // globs of ids
}

// Hub is a NATS server inside this host, on the files of exthost cluster init. A cluster has 1, 3 or 5 hubs, not
// one at each node.
type Hub struct {
	// host:port for nodes, such as 0.0.0.0:7822; default: there is no hub
	Listen string `json:"listen,omitempty"`
	// the directory of exthost cluster init; default ./cluster beside the configuration file
	Dir string `json:"dir,omitempty" path:"true"`
	// host:port for the other hubs, such as 0.0.0.0:7823; default, with peers: the host of listen and its port plus 1
	Routes string   `json:"routes,omitempty"`
	Peers  []string `json:"peers,omitempty"` // host:port of the other hubs' routes; may include its own
}

// Default returns a section that joins nothing.
func Default() Membership {
	return Membership{
		Share:     []Sharing{{Extensions: []string{"*"}, As: ShareMine}},
		Use:       []Use{{Nodes: []string{"*"}, Extensions: []string{"*"}}},
		Operators: []string{},
		MaxCalls:  1024,
		MaxTools:  2000,
		Pulse:     manifest.Duration(250 * time.Millisecond),
		Grace:     manifest.Duration(2 * time.Second),
		Silence:   manifest.Duration(10 * time.Second),
		Forget:    manifest.Duration(30 * time.Second),
	}
}

// Joins reports whether the host joins a cluster.
func (m *Membership) Joins() bool { return m.Join != "" || len(m.URLs) > 0 }

// RoutesListen returns the address where the hub listens to other hubs, "" for a single hub.
func (h *Hub) RoutesListen() string {
	if h.Routes != "" || len(h.Peers) == 0 {
		return h.Routes
	}
	host, port, err := net.SplitHostPort(h.Listen)
	n, wrong := strconv.Atoi(port)
	if err != nil || wrong != nil || n == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}

// Problem is an error in the section: key, what is wrong, and what to do.
type Problem struct{ Field, Message, Hint string }

// Validate returns all errors in m.
func (m *Membership) Validate() (problems []Problem) {
	add := func(field, hint, format string, args ...any) {
		problems = append(problems, Problem{field, fmt.Sprintf(format, args...), hint})
	}
	if m.Join != "" && len(m.URLs) > 0 {
		add("urls", "keep one of them", "join and urls exclude each other: join says where the servers are")
	}
	for _, f := range []struct{ key, value string }{
		{"creds", m.Creds},
		{"nkey", m.NKey},
		{"tls", m.TLS.CA + m.TLS.Cert + m.TLS.Key},
	} {
		if f.value != "" && len(m.URLs) == 0 {
			add(f.key, "", "only with urls")
		}
	}
	if m.Creds != "" && m.NKey != "" {
		add("nkey", "keep one of them", "creds and nkey exclude each other")
	}
	if (m.TLS.Cert == "") != (m.TLS.Key == "") {
		add("tls", "", "a cert needs its key, and a key its cert")
	}
	for i, u := range m.URLs {
		if err := CheckURL(u); err != nil {
			add(index("urls", i), "such as tls://nats.example:4222", "%v", err)
		}
	}
	for _, name := range []struct{ key, value string }{{"name", m.Name}, {"node", m.Node}} {
		if err := CheckName(cmp.Or(name.value, "default")); err != nil {
			add(name.key, "", "%v", err)
		}
	}
	m.checkLists(add)
	m.checkTimes(add)
	m.Hub.check(add)
	return problems
}

type adder func(field, hint, format string, args ...any)

func (m *Membership) checkLists(add adder) {
	for i, s := range m.Share {
		if len(s.Extensions) == 0 || slices.Contains(s.Extensions, "") {
			add(index("share", i), `such as {extensions: ["*"], as: mine}`, "extensions needs globs of ids")
		}
		if s.As == "" {
			add(index("share", i), `such as {extensions: ["*"], as: mine}`, "as is needed: mine, replicas or none")
		}
	}
	for i, u := range m.Use {
		if len(u.Nodes) == 0 || len(u.Extensions) == 0 || slices.Contains(u.Nodes, "") ||
			slices.Contains(u.Extensions, "") {
			add(index("use", i), `such as {nodes: ["*"], extensions: ["*"]}`, "nodes and extensions need globs")
		}
	}
	for i, node := range m.Operators {
		if err := CheckName(node); err != nil {
			add(index("operators", i), "", "%v", err)
		}
	}
}

// The bounds of pulse. A shorter interval costs more than it tells. With a longer one, a lost node is noticed no sooner
// than by the pings of the NATS servers.
const (
	minPulse = manifest.Duration(10 * time.Millisecond)
	maxPulse = manifest.Duration(5 * time.Second)
)

func (m *Membership) checkTimes(add adder) {
	if m.Pulse < minPulse || m.Pulse > maxPulse {
		add("pulse", "such as 250ms", "it is from 10ms to 5s")
	}
	if m.Grace < 2*m.Pulse {
		add("grace", "such as 2s", "it is at least two pulses, so that one that is late loses no call")
	}
	if m.Silence < m.Grace {
		add("silence", "such as 10s", "it is at least grace")
	}
}

func (h *Hub) check(add adder) {
	if h.Listen == "" {
		if h.Dir != "" || h.Routes != "" || len(h.Peers) > 0 {
			add("hub.listen", "such as 0.0.0.0:7822", "a hub needs an address to listen at")
		}
		return
	}
	if !isAddress(h.Listen) {
		add("hub.listen", "such as 0.0.0.0:7822", "%q is not host:port", h.Listen)
	}
	if h.Routes != "" && !isAddress(h.Routes) {
		add("hub.routes", "such as 0.0.0.0:7823", "%q is not host:port", h.Routes)
	}
	if len(h.Peers) > 0 && isAddress(h.Listen) && h.RoutesListen() == "" {
		add("hub.routes", "such as 0.0.0.0:7823", "it is needed, as the port of listen is any free one")
	}
	for i, peer := range h.Peers {
		if !isPeer(peer) {
			add(index("hub.peers", i), "such as n2:7823", "%q is not host:port", peer)
		}
	}
}

// CheckURL returns the error in the address of a NATS server.
func CheckURL(text string) error {
	if strings.Contains(text, "@") { // may have a password: do not quote it
		return errors.New("the address of a NATS server has a user or password: state creds or nkey")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Port() == "" {
		return fmt.Errorf("%q is no address of a NATS server, such as tls://n1:7822", text)
	}
	return nil
}

func isPeer(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return err == nil && host != "" && port != "0" && isAddress(text)
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	n, wrong := strconv.Atoi(port)
	return err == nil && wrong == nil && n >= 0 && n <= 65535
}

func index(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
