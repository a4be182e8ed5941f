package remote

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// CodeTaken is the code of the diagnostic about an extension of another node that is left out because its id is
// taken.
const CodeTaken = "id_taken"

// owners records the owner of each id of other nodes' extensions. An id, with the tool names that begin with it,
// never passes to another owner while this host runs: calls meant for a node that is away, for a moment or a night,
// must not reach an extension that has taken the id meanwhile.
type owners map[string]*owner

// owner is the extension that owns an id.
type owner struct {
	as    string // peers.AsMine or peers.AsReplicas
	node  string // last node seen with it
	tools int    // number of tools last seen
	round uint64 // last round in which it had a place
}

// absences counts extensions without a place, and their tools.
type absences struct{ ids, tools int }

// Bounds of remembered absent extensions, of one node and of all.
var (
	maxAbsentOfNode = absences{256, 2_000}
	maxAbsent       = absences{4_096, 32_000}
)

func (a absences) with(tools int) absences { return absences{a.ids + 1, a.tools + tools} }

func (a absences) exceed(most absences) bool { return a.ids > most.ids || a.tools > most.tools }

// admit returns the places that own their id, by id, and a diagnostic for each other place. local returns why an
// id belongs to this host, or "". Of two new owners of an id, the node named in it takes precedence.
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

// absent returns the ids whose owner has no place in this round, sorted. Beyond the bounds it forgets those that
// have been absent longest.
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
