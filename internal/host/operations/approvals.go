package operations

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

const (
	listWait    = 2 * time.Second  // for the lists of other nodes
	answerWait  = 10 * time.Second // for the answer to an approval
	maxRequests = 256              // of one node
	maxShown    = 1024             // of all other nodes
	maxJSON     = 4 << 20          // bytes of a list
	maxArgs     = 2 << 10          // bytes of arguments shown
	maxReason   = 1 << 10          // bytes of the reason of a denial
)

// Approvals queries the other nodes with waiting requests, for 2 s at most.
func (n *Nodes) Approvals(ctx context.Context) status.Approvals {
	remote, silent := n.refresh(ctx)
	return status.Approvals{Requests: n.Local.with(remote), Silent: silent}
}

// refresh queries the other nodes with waiting requests, and stores their lists.
func (n *Nodes) refresh(ctx context.Context) (list []approval.Request, silent []status.Silent) {
	turn := n.desks.begin()
	list, silent = n.ask(ctx, n.remoteNodes.desks())
	n.desks.keep(turn, list, silent)
	return list, silent
}

// with returns the requests of this host and remote ones, oldest first.
func (h *Local) with(remote []approval.Request) []approval.Request {
	list := append(h.State.Approvals.List(), remote...)
	slices.SortStableFunc(list, func(a, b approval.Request) int { return a.Since.Compare(b.Since) })
	return list
}

// desks returns the other nodes with waiting requests.
func (r *remoteNodes) desks() (nodes []string) {
	for _, other := range r.list() {
		if other.Approvals > 0 {
			nodes = append(nodes, other.Name)
		}
	}
	return nodes
}

// ask returns the waiting requests of nodes, and the nodes whose lists are incomplete.
func (r *remoteNodes) ask(ctx context.Context, nodes []string) (list []approval.Request, silent []status.Silent) {
	var full []status.Silent
	silent = r.each(ctx, listWait, nodes, methodApprovals, struct{}{}, func(node string, answer json.RawMessage) error {
		found, err := readRequests(node, answer)
		if room := maxShown - len(list); len(found) > room {
			found = found[:room]
			full = append(full, status.Silent{
				Node: node,
				Reason: fmt.Sprintf("%d requests of other nodes are listed already: answer some of these, or "+
					"those at that node", maxShown),
				Partial: true,
			})
		}
		list = append(list, found...)
		return err
	})
	slices.SortFunc(list, func(a, b approval.Request) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	silent = append(silent, full...)
	slices.SortFunc(silent, byName)
	return list, silent
}

// requestID matches the id of a request at its own node.
var requestID = regexp.MustCompile(`^[A-Za-z0-9]{1,32}$`)

// readRequests returns the requests in the answer of a node, which is not trusted.
func readRequests(node string, answer json.RawMessage) ([]approval.Request, error) {
	if len(answer) > maxJSON {
		return nil, protocol.Errorf(protocol.LineTooLong, "its list of approval requests has %d bytes, more than %d",
			len(answer), maxJSON)
	}
	var list []approval.Request
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, protocol.Errorf(protocol.InvalidResponse, "its list of approval requests cannot be read: %w", err)
	}
	list = slices.DeleteFunc(list, func(q approval.Request) bool { return !requestID.MatchString(q.ID) })
	list = list[:min(len(list), maxRequests)]
	for i := range list {
		q := &list[i]
		for _, text := range []*string{&q.Caller, &q.Session, &q.Node, &q.Extension, &q.Tool, &q.Method, &q.Policy,
			&q.Reason, &q.Hash, &q.Decision, &q.Approved, &q.AskedIn} {
			*text = display.Escape(display.Cut(*text, maxText))
		}
		q.Arguments = display.Escape(display.Cut(q.Arguments, maxArgs))
		q.ID, q.Desk = node+"/"+q.ID+markSeparator+markOf(q), node
	}
	return list, nil
}

// markSeparator separates the id of a request at its node from the mark. The mark is a hash of what the person was
// shown: the answer applies only to that, even if the node lists something else by then.
const markSeparator = "."

// markKey prevents nodes from constructing two requests with the same mark.
var markKey = rand.Text()

// markOf returns a 40-bit hash of the shown parts of a request that do not change while it waits.
func markOf(q *approval.Request) string {
	h := hmac.New(sha256.New, []byte(markKey))
	for _, text := range []string{q.ID, q.Caller, q.Session, q.Node, q.Extension, q.Tool, q.Method, q.Policy, q.Reason,
		q.Arguments, q.Hash, q.Decision} {
		fmt.Fprintf(h, "%d %s", len(text), text)
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:5]))
}

// waiting returns the requests of this host for another node. A node without operator rights sees arguments only for
// calls of its own callers, and no hash for other calls, because short arguments could be guessed from a hash.
func (n *inward) waiting(o *peers.Operation) ([]approval.Request, error) {
	list := n.Local.State.Approvals.List()
	for i := range list {
		q := &list[i]
		q.DeskOnly, q.Reason = !o.Operator, display.Cut(q.Reason, maxText)
		if !o.Operator && q.Node != o.Node {
			q.Arguments, q.Session, q.Hash = "", "", ""
		}
	}
	return list, nil
}

// Approve approves a request of this host, or of another node as NODE/ID. by names the person.
func (n *Nodes) Approve(ctx context.Context, id, by string) error {
	node, there, err := n.desk(id)
	switch {
	case err != nil:
		return err
	case node == "":
		return n.Local.Approve(there, by)
	}
	return n.send(ctx, methodApprove, node, order{ID: there, By: by})
}

// Deny denies a request of this host, or of another node as NODE/ID. reason may be "".
func (n *Nodes) Deny(ctx context.Context, id, by, reason string) error {
	node, there, err := n.desk(id)
	switch {
	case err != nil:
		return err
	case node == "":
		return n.Local.Deny(there, by, reason)
	}
	return n.send(ctx, methodDeny, node, order{ID: there, By: by, Reason: display.Cut(reason, maxReason)})
}

// desk returns the node of a request, "" for this one, and its id there.
func (n *Nodes) desk(id string) (node, there string, err error) {
	node, there, ok := strings.Cut(id, "/")
	switch {
	case !ok:
		return "", id, nil
	case n.cluster == nil:
		return "", "", protocol.Errorf(protocol.ToolNotFound, "%.80q: this host is in no cluster", id)
	case node == n.self:
		return "", there, nil
	}
	return node, there, nil
}

// send sends the answer to a request to the request's node. The mark in the id and the hash bind the answer to the
// call that was shown. If the hash is not known, send queries the node; if the node lists no such request, the answer
// has no hash, and the node refuses it or says who has answered.
func (n *Nodes) send(ctx context.Context, method, node string, p order) error {
	id, mark := node+"/"+p.ID, ""
	p.ID, mark, _ = strings.Cut(p.ID, markSeparator)
	if p.Hash = n.desks.hash(id); p.Hash == "" {
		list, silent := n.ask(ctx, []string{node})
		if len(silent) > 0 {
			return protocol.Errorf(protocol.NotReady, "%s is not answered: %s", id, silent[0].Reason)
		}
		for _, q := range list { // if none matches, the request was answered: its node says by whom
			switch {
			case q.ID == id:
				p.Hash = q.Hash
			case mark == "" && strings.HasPrefix(q.ID, id+markSeparator):
				return protocol.Errorf(protocol.InvalidArguments,
					"%s does not say what was shown of the request; take the id from exthost calls approve: %s", id,
					q.ID)
			case strings.HasPrefix(q.ID, node+"/"+p.ID+markSeparator):
				return protocol.Errorf(protocol.DescriptorChanged,
					"request %s is about another call than the one that was shown; list the requests again: "+
						"exthost calls approve", id)
			}
		}
	}
	err := n.order(ctx, answerWait, node, method, p, nil)
	n.desks.poke()
	return err
}

// decide answers a request of this host for an operator of another node.
func (n *inward) decide(method string, p *order) error {
	for _, q := range n.Local.State.Approvals.List() {
		if q.ID == p.ID && p.Hash != q.Hash {
			return protocol.Errorf(protocol.DescriptorChanged,
				"request %s is about another call than the one that was answered; list the requests again: "+
					"exthost calls approve", q.ID)
		}
	}
	if method == methodApprove {
		return n.Local.Approve(p.ID, p.By)
	}
	return n.Local.Deny(p.ID, p.By, display.Escape(display.Cut(p.Reason, maxReason)))
}

// desks are the requests of other nodes as last listed.
type desks struct {
	poked chan struct{} // holds a token when the requests may have changed

	mu        sync.Mutex // guards the fields below
	followers int
	begun     uint64 // turn of the latest query
	kept      uint64 // turn of the query that remote is from
	remote    []approval.Request
	silent    []status.Silent // nodes whose requests are not in remote, or not as they are now
	changed   chan struct{}   // closed when remote or silent changes
}

func (d *desks) hash(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.remote {
		if q.ID == id {
			return q.Hash
		}
	}
	return ""
}

// begin returns the turn of a new query.
func (d *desks) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	return d.begun
}

// keep stores the result of a query, unless that of a later query is stored already. Requests of nodes that did not
// answer stay.
func (d *desks) keep(turn uint64, list []approval.Request, silent []status.Silent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if turn < d.kept {
		return
	}
	d.kept = turn
	for _, q := range d.remote {
		if slices.ContainsFunc(silent, func(s status.Silent) bool { return s.Node == q.Desk && !s.Partial }) {
			list = append(list, q)
		}
	}
	if slices.Equal(list, d.remote) && slices.Equal(silent, d.silent) {
		return
	}
	d.remote, d.silent = list, silent
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *desks) poke() {
	select {
	case d.poked <- struct{}{}:
	default:
	}
}

// WaitingChanged reports that requests of other nodes may have changed. It does not block.
func (n *Nodes) WaitingChanged() { n.desks.poke() }

// Run tells the cluster about the requests of this host until ctx ends. While someone follows the requests of other
// nodes, Run keeps these current.
func (n *Nodes) Run(ctx context.Context) {
	if n.cluster == nil {
		return
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { n.watch(ctx) })
	told := 0
	for {
		own := n.Local.State.Approvals.Changed()
		if now := len(n.Local.State.Approvals.List()); now > 0 || told > 0 {
			n.cluster.Waiting(now)
			told = now
		}
		select {
		case <-own:
		case <-ctx.Done():
			return
		}
	}
}

// askAgain is how long after a query nodes that were silent are queried again.
const askAgain = 5 * time.Second

// watch queries the requests of other nodes while someone follows them.
func (n *Nodes) watch(ctx context.Context) {
	again := time.NewTimer(askAgain)
	defer again.Stop()
	for {
		again.Stop()
		if n.desks.incomplete() {
			again.Reset(askAgain)
		}
		select {
		case <-n.desks.poked:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		n.desks.mu.Lock()
		followed := n.desks.followers > 0
		n.desks.mu.Unlock()
		if followed {
			n.refresh(ctx)
		}
	}
}

// incomplete reports whether the latest query got no answer of some node.
func (d *desks) incomplete() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.silent, func(s status.Silent) bool { return !s.Partial })
}

// Follow keeps the requests of other nodes current until leave is called.
func (n *Nodes) Follow() (leave func()) {
	n.desks.mu.Lock()
	defer n.desks.mu.Unlock()
	n.desks.followers++
	n.desks.poke()
	return sync.OnceFunc(func() {
		n.desks.mu.Lock()
		defer n.desks.mu.Unlock()
		n.desks.followers--
	})
}

// Current returns the known waiting requests of all nodes, the nodes whose requests are missing, and two channels of
// which one is closed when they change.
func (n *Nodes) Current() (list []approval.Request, silent []status.Silent, own, remote <-chan struct{}) {
	own = n.Local.State.Approvals.Changed()
	n.desks.mu.Lock()
	defer n.desks.mu.Unlock()
	return n.Local.with(n.desks.remote), n.desks.silent, own, n.desks.changed
}
