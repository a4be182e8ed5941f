package remote

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// CodeTaken is the code of the diagnostic that an extension of another node is left out, because its id belongs to
// something else.
const CodeTaken = "id_taken"

// owners remembers by id which extension of other nodes has an id, or last had it. An id, and with it the names of
// tools that begin with it, passes to no other owner while this host runs: calls that callers mean for a node that
// is away for a moment, or for a night, must not reach who has taken its name meanwhile.
type owners map[string]*owner

// owner is the extension that an id belongs to.
type owner struct {
	as    string // peers.AsMine or peers.AsReplicas
	node  string // the node that was last seen with it
	tools int    // that it was last seen with
	round uint64 // in which it last had a place
}

// absences are extensions that have no place, counted.
type absences struct{ ids, tools int }

// The bounds of what is remembered of extensions that have no place: for one node, and for all.
var (
	maxAbsentOfNode = absences{256, 2_000}
	maxAbsent       = absences{4_096, 32_000}
)

func (a absences) with(tools int) absences { return absences{a.ids + 1, a.tools + tools} }

func (a absences) exceed(most absences) bool { return a.ids > most.ids || a.tools > most.tools }

// admit returns by id the places whose ids are theirs, and a diagnostic for each other. local returns why an id of a
// place belongs to this host, or "". Of two new owners of one id, the node that is named in it comes first.
func (o owners) admit(all []*peers.Place, local func(*peers.Place) string, round uint64,
) (byID map[string][]*peers.Place, left []protocol.Diagnostic) {
	byID = make(map[string][]*peers.Place)
	for _, as := range []string{peers.AsMine, peers.AsReplicas} {
		for _, p := range all {
			if p.As != as {
				continue
			}
			id, whose := p.ID(), local(p)
			if known := o[id]; whose == "" && known != nil && known.as != as {
				whose = "an extension of node " + known.node
			}
			if whose != "" {
				left = append(left, protocol.Diagnostic{
					Level:     protocol.LevelWarn,
					Code:      CodeTaken,
					Extension: id,
					Message: fmt.Sprintf("extension %s of node %s is left out: its id belongs to %s", p.Extension,
						p.Node, whose),
					Hint: "rename one of them; an extension that several nodes share as replicas is shared as " +
						"replicas by each",
				})
				continue
			}
			o[id] = &owner{as: as, node: p.Node, tools: len(p.Tools), round: round}
			byID[id] = append(byID[id], p)
		}
	}
	return byID, left
}

// absent returns the ids that have an owner without a place in the current round, by id. Where there are
// too many of a node or of all nodes, it forgets those that went away first.
func (o owners) absent(round uint64) (ids []string) {
	for id, one := range o {
		if one.round != round {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(o[b].round, o[a].round), cmp.Compare(a, b))
	})
	var all absences
	of := make(map[string]absences)
	ids = slices.DeleteFunc(ids, func(id string) bool {
		one := o[id]
		of[one.node] = of[one.node].with(one.tools)
		forget := of[one.node].exceed(maxAbsentOfNode)
		if !forget {
			all = all.with(one.tools)
			forget = all.exceed(maxAbsent)
		}
		if forget {
			delete(o, id)
		}
		return forget
	})
	slices.Sort(ids)
	return ids
}
