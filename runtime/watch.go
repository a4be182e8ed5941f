package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// A modern MCP server has no resources/subscribe. Its client sends a
// subscriptions/listen instead, which the server answers when the subscription
// ends. Callers of the host send resources/subscribe in both eras.

// grantTimeout is how long a server may take to acknowledge a subscription.
const grantTimeout = 5 * time.Second

// watches are the resources that a server is listened to about.
type watches struct {
	mu    sync.Mutex
	byURI map[string]*watch
}

type watch struct {
	cancel  context.CancelFunc
	granted chan struct{} // holds a token once the server has acknowledged it
}

// take returns the watch of uri, and whether it is a new one.
func (w *watches) take(uri string, cancel context.CancelFunc) (_ *watch, isNew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if there := w.byURI[uri]; there != nil {
		return there, false
	}
	if w.byURI == nil {
		w.byURI = make(map[string]*watch)
	}
	w.byURI[uri] = &watch{cancel: cancel, granted: make(chan struct{}, 1)}
	return w.byURI[uri], true
}

func (w *watches) drop(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if there := w.byURI[uri]; there != nil {
		there.cancel()
		delete(w.byURI, uri)
	}
}

// grant takes an acknowledgement.
func (w *watches) grant(params json.RawMessage) {
	uris, _ := arrayOf[string](rawjson.Get(params, "notifications"), "resourceSubscriptions")
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri, one := range w.byURI {
		if slices.Contains(uris, uri) {
			signal(one.granted)
		}
	}
}

// watchResource serves a caller's resources/subscribe.
func (c *child) watchResource(ctx context.Context, d *mcp, params json.RawMessage) (json.RawMessage, error) {
	uri := textOf(params, "uri")
	listening, cancel := context.WithCancel(context.Background()) // the connection's end ends it too
	w, isNew := c.watches.take(uri, cancel)
	if !isNew {
		cancel()
		return emptyObject, nil
	}
	refused := make(chan error, 1)
	c.tasks.Go(func() {
		defer cancel()
		for {
			_, err := c.conn.Call(listening, protocol.MethodListen, d.listenTo(map[string]any{"resourceSubscriptions": []string{uri}}), nil)
			if answer := (*jsonrpc.Error)(nil); errors.As(err, &answer) || errors.Is(err, jsonrpc.ErrClosed) || listening.Err() != nil {
				refused <- err
				return
			}
			pause(listening, followPause)
		}
	})
	timeout := time.NewTimer(grantTimeout)
	defer timeout.Stop()
	var err error
	select {
	case <-w.granted:
		return emptyObject, nil
	case err = <-refused:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the server does not tell of changes of " + cutLine([]byte(uri))}
	}
	c.watches.drop(uri)
	return nil, err
}

// listenTo returns the params of a request to listen.
func (d *mcp) listenTo(notifications map[string]any) json.RawMessage {
	return rawjson.Set(mustJSON(map[string]any{"notifications": notifications}), "_meta", d.envelope)
}

// unmarked returns params without the mark of the subscription that they came by,
// which is the host's.
func unmarked(params json.RawMessage) json.RawMessage {
	meta := rawjson.Get(params, "_meta")
	if rawjson.Get(meta, protocol.MetaSubscriptionID) == nil {
		return params
	}
	if meta = rawjson.Delete(meta, protocol.MetaSubscriptionID); string(meta) == "{}" {
		return rawjson.Delete(params, "_meta")
	}
	return rawjson.Set(params, "_meta", meta)
}
