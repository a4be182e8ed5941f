package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// Modern MCP servers have no resources/subscribe. Their clients send subscriptions/listen, which is answered when the
// subscription ends. Callers of the host use resources/subscribe with all versions.

// ackTimeout bounds how long a server may take to acknowledge a subscription.
const ackTimeout = 5 * time.Second

// resourceWatches are the resources with an open listen request, by URI. One request serves all sessions; the
// Subscriptions of internal/host/gateway know which sessions follow the resource.
type resourceWatches struct {
	mu    sync.Mutex
	byURI map[string]*resourceWatch
}

type resourceWatch struct {
	cancel       context.CancelFunc
	acknowledged chan struct{} // holds a token once acknowledged by the server
}

// add returns the watch of uri and whether it is new.
func (w *resourceWatches) add(uri string, cancel context.CancelFunc) (_ *resourceWatch, isNew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.byURI[uri]; known != nil {
		return known, false
	}
	if w.byURI == nil {
		w.byURI = make(map[string]*resourceWatch)
	}
	w.byURI[uri] = &resourceWatch{cancel: cancel, acknowledged: make(chan struct{}, 1)}
	return w.byURI[uri], true
}

func (w *resourceWatches) drop(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.byURI[uri]; known != nil {
		known.cancel()
		delete(w.byURI, uri)
	}
}

// acknowledge handles the server's acknowledgement.
func (w *resourceWatches) acknowledge(params json.RawMessage) {
	uris, _ := arrayOf[string](rawjson.Get(params, "notifications"), "resourceSubscriptions")
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri, one := range w.byURI {
		if slices.Contains(uris, uri) {
			signal(one.acknowledged)
		}
	}
}

// subscribeResource handles a caller's resources/subscribe.
func (c *child) subscribeResource(ctx context.Context, d *mcp, params json.RawMessage) (json.RawMessage, error) {
	uri := textOf(params, "uri")
	listening, cancel := context.WithCancel(context.Background()) // Call also ends with the connection
	w, isNew := c.watches.add(uri, cancel)
	if !isNew {
		cancel()
		return emptyObject, nil
	}
	refused := make(chan error, 1)
	if !c.tasks.Go(func() {
		defer cancel()
		for {
			_, err := c.conn.Call(listening, protocol.MethodListen,
				d.listenTo(map[string]any{"resourceSubscriptions": []string{uri}}),
				&jsonrpc.CallOptions{Standing: true})
			if answer := (*jsonrpc.Error)(nil); errors.As(err, &answer) || errors.Is(err, jsonrpc.ErrClosed) ||
				listening.Err() != nil {
				refused <- err
				return
			}
			pause(listening, resubscribePause)
		}
	}) {
		refused <- jsonrpc.ErrClosed
	}
	timeout := time.NewTimer(ackTimeout)
	defer timeout.Stop()
	var err error
	select {
	case <-w.acknowledged:
		return emptyObject, nil
	case err = <-refused:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: "the server does not tell of changes of " + cutLine([]byte(uri)),
		}
	}
	c.watches.drop(uri)
	return nil, err
}

// listenTo returns the params of subscriptions/listen.
func (d *mcp) listenTo(notifications map[string]any) json.RawMessage {
	return rawjson.Set(mustJSON(map[string]any{"notifications": notifications}), "_meta", d.envelope)
}

// withoutSubscription removes the id of the host's own subscription from _meta of params.
func withoutSubscription(params json.RawMessage) json.RawMessage {
	meta := rawjson.Get(params, "_meta")
	if rawjson.Get(meta, protocol.MetaSubscriptionID) == nil {
		return params
	}
	if meta = rawjson.Delete(meta, protocol.MetaSubscriptionID); string(meta) == "{}" {
		return rawjson.Delete(params, "_meta")
	}
	return rawjson.Set(params, "_meta", meta)
}
