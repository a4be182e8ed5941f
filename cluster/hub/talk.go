//go:build !slim

package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/internal/concurrent"
)

// Hubs exchange their records over their routes, in the system account, which no node can access. So an invitation or
// revocation at one hub takes effect at all hubs.

// recordSubject is where hubs publish their records.
const recordSubject = "exthost.hub.record"

// tell hands r to converse, replacing a record that has not been published yet.
func (h *Hub) tell(r *record) {
	data, err := json.Marshal(r)
	if err != nil || len(data) > maxPayload {
		h.log.Error("the other hubs are not told who is invited and who is revoked: the record is too large", "bytes",
			len(data))
		return
	}
	select {
	case <-h.told:
	default:
	}
	h.told <- data // never blocks: only follow sends
}

// talk exchanges records with the other hubs until ctx ends.
func (h *Hub) talk(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.converse(ctx)
		if ctx.Err() == nil {
			h.log.Warn("the hub does not hear from others who is invited and who is revoked; it tries again", "error",
				err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(tellEach):
		}
	}
}

// converse exchanges records over one connection until it or ctx ends. It publishes the newest record at once and every
// tellEach, for hubs that have just started or reconnected.
func (h *Hub) converse(ctx context.Context) error {
	closed := make(chan struct{})
	conn, err := h.user(h.files.system, []string{recordSubject}, []string{recordSubject}, nats.NoEcho(),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		return err
	}
	var work concurrent.Gate
	defer func() {
		conn.Close()
		<-closed
		<-work.Close()
	}()
	_, err = conn.Subscribe(recordSubject, func(m *nats.Msg) {
		if work.Enter() {
			h.take(m.Data)
			work.Leave()
		}
	})
	if err != nil {
		return err
	}
	tick := time.NewTicker(tellEach)
	defer tick.Stop()
	for {
		if h.newest != nil {
			if err := conn.Publish(recordSubject, h.newest); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return cmp.Or(conn.LastError(), nats.ErrConnectionClosed)
		case h.newest = <-h.told:
		case <-tick.C:
		}
	}
}

// take merges a received record into the record file of this hub. follow notices the change.
func (h *Hub) take(data []byte) {
	other := new(record)
	err := json.Unmarshal(data, other)
	if err == nil {
		var left error
		err = h.files.change(func(r *record) (changed bool, _ error) {
			changed, left = r.merge(other)
			return changed, nil
		})
		err = errors.Join(err, left)
	}
	if err != nil {
		h.log.Warn("the hub does not take over who another hub says is invited and revoked", "error", err)
	}
}
