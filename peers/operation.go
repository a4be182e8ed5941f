package peers

import "encoding/json"

// Operation is a request of another node to this one, on behalf of an operator or a caller there.
type Operation struct {
	Node     string          // the requesting node
	Run      string          // its run
	Operator bool            // the requesting node is in cluster.operators of this node
	Method   string          // the operation
	Params   json.RawMessage // a JSON value
}

// GuestID returns the id of the session that a client of another node has with an extension here. run is that node's
// run.
func GuestID(node, run, extension, session string) string {
	return node + "." + run + "/" + extension + "/" + session
}
