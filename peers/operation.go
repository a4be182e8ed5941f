package peers

import "encoding/json"

// Operation is what the operator of one node wants another node to do or to tell.
type Operation struct {
	Node     string          // that wants it
	Run      string          // its run
	Operator bool            // cluster.operators of this node names that node
	Method   string          // what it wants
	Params   json.RawMessage // a JSON value
}

// GuestID is the id of the session that a client of a run has with an extension of another node.
func GuestID(node, run, extension, session string) string {
	return node + "." + run + "/" + extension + "/" + session
}
