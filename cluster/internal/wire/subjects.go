// Package wire defines the messages between the nodes of a cluster: their subjects on NATS, and their format,
// which is a JSON head followed by raw bytes.
package wire

import (
	"crypto/rand"
	"strings"

	settings "github.com/exthost/exthost/config/cluster"
)

// Major is the version of the wire format and part of every subject, so that other major versions never meet.
const Major = "exthost.1"

// Address identifies a run, which is one process of a node.
type Address struct {
	Node string // see [settings.CheckName]
	Run  string // 10 random letters and digits
}

// Subjects builds the subjects of a cluster.
type Subjects struct{ Cluster string }

const major = Major + "."

func (s Subjects) root() string { return major + s.Cluster }

// To returns the subject of messages from a node to a run.
func (s Subjects) To(to Address, from string) string {
	return major + s.Cluster + ".to." + to.Node + "." + to.Run + "." + from
}

// NoResponder returns the reply subject for a message of sender. The server replies to it if no run receives the
// message; what, one token, identifies the message.
func (s Subjects) NoResponder(sender Address, what string) string {
	return major + s.Cluster + ".to." + sender.Node + "." + sender.Run + "." + nobody + "." + what
}

// All returns the subject of messages from a node to all nodes.
func (s Subjects) All(from string) string { return s.root() + ".all." + from }

// Any returns the subject of messages from a node to any one node.
func (s Subjects) Any(from string) string { return s.root() + ".any." + from }

// ToRun, ToAll and ToAny are the subjects that a run subscribes to. The queue group of ToAny is [AnyGroup].
func (s Subjects) ToRun(own Address) string {
	return s.root() + ".to." + own.Node + "." + own.Run + ".>"
}
func (s Subjects) ToAll() string { return s.root() + ".all.*" }
func (s Subjects) ToAny() string { return s.root() + ".any.*" }

// Inbox returns the prefix of the reply subjects for requests of a node to servers. No node may publish there: the
// subjects have one token more than those of nodes, and askedRun, which is no valid run, in place of a run.
func (s Subjects) Inbox(node string) string { return s.root() + ".to." + node + "." + askedRun }

const askedRun = "asked"

// ToHub returns the subject of a node's requests to hubs about the counters of shared limits. what is one token. A
// node's permission to publish to runs includes the subject, and no node can have the name of hub.
func (s Subjects) ToHub(what, from string) string { return s.To(Address{Node: hub, Run: what}, from) }

// ToHubs is the subject that hubs subscribe to.
func (s Subjects) ToHubs() string { return s.root() + ".to." + hub + ".*.*" }

// Asked parses a subject of [Subjects.ToHub]. It returns "" for other subjects.
func (s Subjects) Asked(subject string) (what, from string) {
	rest, of := strings.CutPrefix(subject, s.root()+".to."+hub+".")
	what, from, ok := strings.Cut(rest, ".")
	if !of || !ok || settings.CheckName(from) != nil {
		return "", ""
	}
	return what, from
}

// hub takes the place of a node; names of nodes contain no underscore.
const hub = "_hub"

// NameRun takes the place of a run in the subject of messages to the run that holds the name of a node. It is no valid
// run.
const NameRun = "name"

// AnyGroup is the queue group of [Subjects.ToAny].
const AnyGroup = "any"

// Publish returns the subjects that a node needs to publish to. Granting no others ensures that the sender in
// a subject is genuine.
func (s Subjects) Publish(node string) []string {
	return []string{s.root() + ".to.*.*." + node, s.root() + ".all." + node, s.root() + ".any." + node}
}

// Subscribe returns the subjects that a node needs to subscribe to.
func (s Subjects) Subscribe(node string) []string {
	return []string{s.root() + ".to." + node + ".>", s.root() + ".all.*", s.root() + ".any.*"}
}

// nobody takes the place of the sender in replies of the server. It is no valid name of a node.
const nobody = settings.Nobody

// From returns the sender of a message, or the what of [Subjects.NoResponder] for a reply of the server. Both are
// "" for other subjects.
func (s Subjects) From(subject string) (node, notTaken string) {
	rest, of := strings.CutPrefix(subject, major)
	rest, in := strings.CutPrefix(rest, s.Cluster)
	rest, to := strings.CutPrefix(rest, ".")
	if !of || !in || !to {
		return "", ""
	}
	var tokens [maxTokens]string
	n := 0
	for more := true; more && n < maxTokens; n++ {
		tokens[n], rest, more = strings.Cut(rest, ".")
	}
	switch {
	case tokens[0] == "to" && n == 4 && tokens[3] != nobody:
		return tokens[3], ""
	case tokens[0] == "to" && n == 5 && tokens[3] == nobody:
		return "", tokens[4]
	case (tokens[0] == "all" || tokens[0] == "any") && n == 2:
		return tokens[1], ""
	}
	return "", ""
}

// maxTokens exceeds the number of tokens after the cluster in any subject.
const maxTokens = 6

const (
	runLength   = 10
	runAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

// NewRun returns a random run name.
func NewRun() string {
	b := make([]byte, runLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = runAlphabet[b[i]%32]
	}
	return string(b)
}

// IsRun reports whether s is a valid run name.
func IsRun(s string) bool {
	for _, c := range []byte(s) {
		if strings.IndexByte(runAlphabet, c) < 0 {
			return false
		}
	}
	return len(s) == runLength
}
