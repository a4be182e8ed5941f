package status

import (
	"strings"

	"github.com/exthost/exthost/protocol"
)

// TransportCluster is the transport of an extension that is at other nodes of the cluster alone.
const TransportCluster = "cluster"

// NotHere is the error, invalid_arguments, of an operator's command about an extension that is at other
// nodes alone: it names them and the command there. nil: this host has the extension.
func (x *Extension) NotHere(command string) error {
	if x.Transport != TransportCluster || len(x.Nodes) == 0 {
		return nil
	}
	own := strings.TrimPrefix(x.ID, x.Nodes[0]+".") // as the others know one that is not a replica
	return protocol.Errorf(protocol.InvalidArguments, "%s is at node %s and not at this host: exthost %s %s there",
		x.ID, strings.Join(x.Nodes, ", "), command, own)
}

// NotHere is [Extension.NotHere] of the extension with an id.
func (s *Status) NotHere(id, command string) error {
	for i := range s.Extensions {
		if s.Extensions[i].ID == id {
			return s.Extensions[i].NotHere(command)
		}
	}
	return nil
}
