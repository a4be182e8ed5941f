package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// subscription is the [protocol.Peer] during one subscriptions/listen. It passes on the notifications that match its
// filter, labelled with the id of that request, and takes no requests.
type subscription struct {
	id           json.RawMessage
	filter       wire.Filter
	write        writer
	acknowledged chan struct{} // closed once the acknowledgement is written
}

// subscribe opens the subscription requested by m until ctx ends. The acknowledgement is written before any
// notification.
func (s *Server) subscribe(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, write writer) error {
	var requested *wire.Filter
	if err := json.Unmarshal(rawjson.Get(m.Params, "notifications"), &requested); err != nil || requested == nil {
		return wire.InvalidParams(protocol.MethodListen + " needs notifications, an object")
	}
	d, err := s.describe(ctx, session)
	if err != nil {
		return err
	}
	var offered wire.Changes
	_ = json.Unmarshal(d.Capabilities, &offered) // a malformed capability counts as missing
	sub := &subscription{
		id:           m.ID,
		write:        write,
		acknowledged: make(chan struct{}),
		filter: wire.Filter{
			Tools:     requested.Tools && offered.Tools.ListChanged,
			Prompts:   requested.Prompts && offered.Prompts.ListChanged,
			Resources: requested.Resources && offered.Resources.ListChanged,
		},
	}
	session.Client = sub
	if !offered.Resources.Subscribe {
		requested.URIs = nil
	}
	if len(requested.URIs) > wire.MaxResources {
		return wire.InvalidParams(fmt.Sprintf("%s follows at most %d resources", protocol.MethodListen,
			wire.MaxResources))
	}
	sub.filter.URIs = requested.URIs
	if err := s.backend.Attach(ctx, session); err != nil {
		return err
	}
	granted := sub.filter
	granted.URIs = s.subscribeResources(ctx, session, requested.URIs)
	notifications, _ := json.Marshal(granted) // booleans and strings always encode
	params := append(append([]byte(`{"notifications":`), notifications...), '}')
	if err := write(ctx, &jsonrpc.Message{
		Method: protocol.MethodSubscriptionAcknowledged,
		Params: wire.WithSubscriptionID(params, m.ID),
	}); err != nil {
		return err
	}
	close(sub.acknowledged)
	return nil
}

// subscribeResources subscribes the session to each resource, and returns the URIs for which that succeeded. The end
// of the session unsubscribes.
func (s *Server) subscribeResources(ctx context.Context, session *protocol.Session, uris []string) (granted []string) {
	for _, uri := range uris {
		params := append(rawjson.AppendText([]byte(`{"uri":`), uri), '}')
		_, err := s.backend.Do(ctx,
			&protocol.Call{
				Session:   session,
				Extension: session.Extension,
				Method:    protocol.MethodResourcesSubscribe,
				Params:    params,
			})
		if err != nil {
			s.log.Debug("a resource cannot be followed", "uri", uri, "error", err)
			continue
		}
		granted = append(granted, uri)
	}
	return granted
}

// Notify implements [protocol.Peer].
func (s *subscription) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if !s.filter.Matches(method, params) {
		return nil
	}
	select {
	case <-s.acknowledged:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.write(ctx, &jsonrpc.Message{Method: method, Params: wire.WithSubscriptionID(params, s.id)})
}

// Call implements [protocol.Peer].
func (s *subscription) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "a subscription cannot be asked %s", method)
}
