package status

import (
	"strings"

	"github.com/exthost/exthost/protocol"
)

// TransportCluster is the transport of an extension that runs only at other nodes.
const TransportCluster = "cluster"

// NotHere returns an invalid_arguments error for an operator's command about an extension that runs only at other
// nodes. The error names these nodes and the command to run there. NotHere returns nil if this host has the extension.
func (x *Extension) NotHere(command string) error {
	if x.Transport != TransportCluster || len(x.Nodes) == 0 {
		return nil
	}
	own := strings.TrimPrefix(x.ID, x.Nodes[0]+".") // the id at its own node
	return protocol.Errorf(protocol.InvalidArguments, "%s is at node %s and not at this host: exthost %s %s there",
		x.ID, strings.Join(x.Nodes, ", "), command, own)
}

// NotHere is [Extension.NotHere] for an id.
func (s *Status) NotHere(id, command string) error {
	for i := range s.Extensions {
		if s.Extensions[i].ID == id {
			return s.Extensions[i].NotHere(command)
		}
	}
	return nil
}
