package operations

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// remoteNodes are the other nodes of a cluster.
type remoteNodes struct {
	self    string        // this node's name; "" without a cluster
	cluster peers.Cluster // nil: no cluster
}

// list returns the other nodes.
func (r *remoteNodes) list() []status.Node {
	if r.cluster == nil {
		return nil
	}
	return r.cluster.Status().Nodes
}

// maxAsked bounds the nodes queried at once, so that their answers do not all arrive together. A slow node gives its
// turn to the next one in time for all nodes to be queried in the first half of the time.
const maxAsked = 16

// each queries nodes within a time, and returns those that did not answer, by name. Calls of take do not overlap.
func (r *remoteNodes) each(ctx context.Context, within time.Duration, nodes []string, method string, params any,
	take func(node string, answer json.RawMessage) error) (silent []status.Silent) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	raw, err := json.Marshal(params)
	if err != nil {
		return nil // params are structs of strings
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	room := make(chan struct{}, maxAsked)
	turn := within * maxAsked / time.Duration(2*max(len(nodes), maxAsked))
	for _, node := range nodes {
		room <- struct{}{}
		leave := sync.OnceFunc(func() { <-room })
		late := time.AfterFunc(turn, leave)
		asked.Go(func() {
			defer leave()
			defer late.Stop()
			answer, err := r.cluster.Operate(ctx, node, method, raw)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = take(node, answer)
			}
			if err != nil {
				silent = append(silent, status.Silent{Node: node, Reason: reasonOf(ctx, err, within)})
			}
		})
	}
	asked.Wait()
	slices.SortFunc(silent, byName)
	return silent
}

func byName(a, b status.Silent) int { return strings.Compare(a.Node, b.Node) }

func reasonOf(ctx context.Context, err error, within time.Duration) string {
	if ctx.Err() != nil {
		return "it did not answer within " + within.String()
	}
	return display.Escape(display.Cut(protocol.Reason(err), maxText))
}

// maxText bounds a text of another node, in bytes.
const maxText = 512

// order has another node carry out an operation within a time, and decodes its answer into to. If to is nil, the
// answer is dropped.
func (r *remoteNodes) order(ctx context.Context, within time.Duration, node, method string, params, to any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer, err := r.cluster.Operate(ctx, node, method, raw)
	if e, ok := errors.AsType[*protocol.Error](named(node, err)); ok {
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			e.Message = "node " + node + " did not answer within " + within.String() +
				"; it may have carried out the command, which may be given again"
		case e.Kind == protocol.NodeLost:
			e.Message += "; the command may be given again"
		}
		return e
	}
	if to != nil {
		if err := json.Unmarshal(answer, to); err != nil {
			return protocol.Errorf(protocol.InvalidResponse, "node %s has answered what cannot be read: %w", node, err)
		}
	}
	return nil
}

// named adds the node's name to an error from another node, whose texts are not trusted.
func named(node string, err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return err
	}
	told := *e
	for _, text := range []*string{&told.Message, &told.Extension, &told.Tool} {
		*text = display.Escape(display.Cut(*text, 4*maxText))
	}
	if !strings.HasPrefix(told.Message, "node "+node) {
		told.Message = "node " + node + ": " + told.Message
	}
	return &told
}
