package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

const (
	auditWait  = 5 * time.Second // for the records of all nodes
	maxIDs     = 16              // of one call: one per node that had it
	maxRecords = 32              // of one call at one node
)

// callID matches the id of a decision.
var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// wanted are the params of an audit query.
type wanted struct {
	IDs []string `json:"ids"`
}

// Audit returns the audit records of all nodes about a call, by the id of one of its decisions. The decision of one
// node leads to those of others. Audit waits 5 s at most. The error is invalid_arguments for an impossible id.
func (n *Nodes) Audit(ctx context.Context, id string) (status.CallRecords, error) {
	if !callID.MatchString(id) {
		return status.CallRecords{}, protocol.Errorf(protocol.InvalidArguments, "%.80q is no id of a decision", id)
	}
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	h := &hunt{Nodes: n, found: make(map[string][]audit.Record), silent: make(map[string]status.Silent)}
	for _, other := range n.list() {
		h.remote = append(h.remote, other.Name)
	}
	h.mu.Lock()
	h.followLocked(ctx, id)
	h.mu.Unlock()
	h.asking.Wait()
	if h.failed != nil && n.cluster == nil {
		return status.CallRecords{}, h.failed
	}
	return status.CallRecords{
		Nodes:  byFront(h.found),
		Silent: slices.SortedFunc(maps.Values(h.silent), byName),
	}, nil
}

// hunt collects the records of one call from all nodes. It follows new ids at once, so that a node that does not
// answer hides nothing of the others.
type hunt struct {
	*Nodes
	remote []string // names of the other nodes
	asking sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	ids    []string   // queried ids
	found  map[string][]audit.Record
	silent map[string]status.Silent
	failed error // why the log of this host is unavailable
}

// followLocked queries all nodes for the records with an id, and for the ids that these name. The caller holds
// h.mu.
func (h *hunt) followLocked(ctx context.Context, id string) {
	if !callID.MatchString(id) || slices.Contains(h.ids, id) || len(h.ids) == maxIDs {
		return
	}
	h.ids = append(h.ids, id)
	p := wanted{[]string{id}}
	h.asking.Go(func() {
		own, err := h.Local.readLog(ctx, p.IDs, nil)
		h.take(ctx, h.self, own)
		if err != nil {
			h.miss(status.Silent{Node: h.self, Reason: protocol.Reason(err)}, err)
		}
	})
	h.asking.Go(func() {
		for _, s := range h.each(ctx, auditWait, h.remote, methodAudit, p,
			func(node string, answer json.RawMessage) error {
				list, err := readRecords(answer, id)
				h.take(ctx, node, list)
				return err
			}) {
			h.miss(s, nil)
		}
	})
}

// take adds the records of a node, and follows their ids.
func (h *hunt) take(ctx context.Context, node string, list []audit.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found[node] = addRecords(h.found[node], list)
	for _, r := range list {
		h.followLocked(ctx, r.ID)
		h.followLocked(ctx, r.Origin)
	}
}

// miss notes that records of a node are missing. err is not nil if the node is this host.
func (h *hunt) miss(s status.Silent, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent[s.Node] = s
	if err != nil {
		h.failed = err
	}
}

// byFront returns the records by node: the node of the call's caller first, then by name.
func byFront(found map[string][]audit.Record) []status.Audited {
	list := []status.Audited{}
	for node, records := range found {
		if len(records) > 0 {
			list = append(list, status.Audited{Node: node, Records: records})
		}
	}
	passed := func(a status.Audited) int {
		if slices.ContainsFunc(a.Records, func(r audit.Record) bool { return r.Node == "" }) {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b status.Audited) int {
		return cmp.Or(passed(a)-passed(b), strings.Compare(a.Node, b.Node))
	})
	return list
}

// addRecords appends the records that are not in list. A log that is read again may have the outcome of a call whose
// intent is in list, and the outcome replaces it.
func addRecords(list, more []audit.Record) []audit.Record {
	for _, r := range more {
		if r.EndsCall() {
			list = slices.DeleteFunc(list,
				func(k audit.Record) bool { return k.ID == r.ID && k.Kind == audit.KindIntent })
		}
		known := slices.ContainsFunc(list, func(k audit.Record) bool {
			same := k.Seq == r.Seq && k.Hash == r.Hash
			return k.ID == r.ID && (same || r.Kind == audit.KindIntent && k.EndsCall())
		})
		if !known && len(list) < maxRecords {
			list = append(list, r)
		}
	}
	return list
}

// readLog returns the records of calls with one of ids in this host's log for which may is true; nil: all.
func (h *Local) readLog(ctx context.Context, ids []string, may func(*audit.Record) bool,
) (list []audit.Record, err error) {
	list = []audit.Record{}
	log := h.State.AuditStatus()
	if log == nil {
		return list, nil
	}
	for r, err := range audit.Read(ctx, log.Path, audit.Query{}) {
		switch {
		case err != nil:
			return nil, protocol.Errorf(protocol.Failed, "the audit log cannot be read: %w", err)
		case !slices.Contains(ids, r.ID) && !slices.Contains(ids, r.Origin), may != nil && !may(&r):
		case len(list) < maxRecords:
			list = append(list, r)
		}
	}
	if ctx.Err() != nil {
		return nil, protocol.Errorf(protocol.CallTimeout,
			"the audit log is too long to be read in time; exthost calls audit --id reads it without a limit")
	}
	return list, nil
}

// records returns the records of a call for another node: those of its own callers, or all for nodes in
// cluster.operators.
func (n *inward) records(ctx context.Context, o *peers.Operation) ([]audit.Record, error) {
	var p wanted
	if err := read(o, &p); err != nil {
		return nil, err
	}
	if len(p.IDs) > maxIDs {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%d ids are too many", len(p.IDs))
	}
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	reading := n.reading
	if o.Operator { // queries for operators do not wait for other queries
		reading = n.readingForOperators
	}
	select {
	case reading <- struct{}{}: // reading takes time in proportion to the log
		defer func() { <-reading }()
	case <-ctx.Done():
		return nil, protocol.Errorf(protocol.Overloaded, "the node reads its audit log for others already")
	}
	withheld := false
	list, err := n.Local.readLog(ctx, p.IDs, func(r *audit.Record) bool {
		may := o.Operator || r.Node == o.Node
		withheld = withheld || !may
		return may
	})
	if err == nil && withheld && len(list) == 0 {
		return nil, protocol.Errorf(protocol.Rejected,
			"it shows node %s the calls of its own callers alone; to show all, name it in cluster.operators there",
			o.Node)
	}
	return list, err
}

// readRecords returns the records with an id from the answer of another node, which is not trusted.
func readRecords(answer json.RawMessage, id string) ([]audit.Record, error) {
	if len(answer) > maxJSON {
		return nil, protocol.Errorf(protocol.LineTooLong, "its answer has %d bytes, more than %d", len(answer), maxJSON)
	}
	var list []audit.Record
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, protocol.Errorf(protocol.InvalidResponse, "its answer cannot be read: %w", err)
	}
	list = slices.DeleteFunc(list, func(r audit.Record) bool { return r.ID != id && r.Origin != id })
	list = list[:min(len(list), maxRecords)]
	for i := range list {
		r := &list[i]
		for _, text := range []*string{&r.ID, &r.Caller, &r.Session, &r.Node, &r.Origin, &r.Extension, &r.Tool,
			&r.Method, &r.Direction, &r.Policy, &r.Code, &r.ApprovedBy, &r.AnsweredIn, &r.Failure, &r.Error} {
			*text = display.Escape(display.Cut(*text, maxText))
		}
	}
	return list, nil
}
