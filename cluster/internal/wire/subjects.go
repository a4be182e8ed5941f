// Package wire is the form of the messages between the nodes of a cluster: their subjects on
// NATS, and a head of JSON with raw bytes behind it.
package wire

import (
	"strings"

	"github.com/exthost/exthost/internal/text/nodename"
)

// Major is the version of the wire. Nodes of another major version do not hear each other.
const Major = "exthost.1"

// Address is one run of one node. A message to a run reaches no later run of the node.
type Address struct {
	Node string // see [CheckName]
	Run  string // 10 random letters and digits, new with each process
}

// Subjects are the subjects of one cluster.
type Subjects struct{ Cluster string }

const major = Major + "."

func (s Subjects) root() string { return major + s.Cluster }

// To is the subject of messages of node from to the run.
func (s Subjects) To(to Address, from string) string {
	return major + s.Cluster + ".to." + to.Node + "." + to.Run + "." + from
}

// Nobody is the reply subject of a message whose sender wants to know that no run takes it. what
// tells the sender which message that was, one token.
func (s Subjects) Nobody(sender Address, what string) string {
	return major + s.Cluster + ".to." + sender.Node + "." + sender.Run + "." + nobody + "." + what
}

// All is the subject of messages of node from to all nodes.
func (s Subjects) All(from string) string { return s.root() + ".all." + from }

// Any is the subject of messages of node from to one node of all, whichever.
func (s Subjects) Any(from string) string { return s.root() + ".any." + from }

// ToRun, ToAll and ToAny are what a run subscribes to. The queue group of ToAny is [AnyGroup].
func (s Subjects) ToRun(own Address) string {
	return s.root() + ".to." + own.Node + "." + own.Run + ".>"
}
func (s Subjects) ToAll() string { return s.root() + ".all.*" }
func (s Subjects) ToAny() string { return s.root() + ".any.*" }

// Inbox begins the subjects of the answers that servers give a node. They have one more token than any that a node
// may publish to, and askedRun in the place of a run, which no run is named.
func (s Subjects) Inbox(node string) string { return s.root() + ".to." + node + "." + askedRun }

const askedRun = "asked"

// ToHub is the subject of what node from asks the hubs about the counters of shared limits, one token. A node may
// publish to it as to a run, and no node is named hub.
func (s Subjects) ToHub(what, from string) string { return s.To(Address{Node: hub, Run: what}, from) }

// ToHubs is what hubs subscribe to.
func (s Subjects) ToHubs() string { return s.root() + ".to." + hub + ".*.*" }

// Asked returns what node from asks with a message to [Subjects.ToHub]; "" for another subject.
func (s Subjects) Asked(subject string) (what, from string) {
	rest, of := strings.CutPrefix(subject, s.root()+".to."+hub+".")
	what, from, ok := strings.Cut(rest, ".")
	if !of || !ok || CheckName(from) != nil {
		return "", ""
	}
	return what, from
}

// hub is in the place of a node; no name of a node has a _.
const hub = "_hub"

// NameRun is in the place of a run in messages to whichever run has the name of a node. No run
// has that name.
const NameRun = "name"

// AnyGroup is the queue group of [Subjects.ToAny].
const AnyGroup = "any"

// Publish returns the subjects that a node must be allowed to publish to, and no others: they
// make the sender in a subject true.
func (s Subjects) Publish(node string) []string {
	return []string{s.root() + ".to.*.*." + node, s.root() + ".all." + node, s.root() + ".any." + node}
}

// Subscribe returns the subjects that a node must be allowed to subscribe to, and no others.
func (s Subjects) Subscribe(node string) []string {
	return []string{s.root() + ".to." + node + ".>", s.root() + ".all.*", s.root() + ".any.*"}
}

// nobody is in the place of the sender where the server answers that there is no such run. No
// node has that name.
const nobody = nodename.Nobody

// From returns the sender of a message by its subject, or for the server's answer that nobody
// took a message what that message was. Of another subject both are "".
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

// maxTokens is more than a subject has behind that of its cluster.
const maxTokens = 6

// CheckName is [nodename.Check].
func CheckName(name string) error { return nodename.Check(name) }
