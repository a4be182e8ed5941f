package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// questions are the requests to a client without a response yet. It is safe for concurrent use.
type questions struct {
	mu     sync.Mutex
	lastID uint64
	byID   map[string]chan *jsonrpc.Message // by raw id
}

// newQuestions returns empty questions. Ids begin after a random number below 2^51: a relay may connect its client to
// one session after another, and a late response must not match a request of the next session.
func newQuestions() *questions {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &questions{lastID: binary.LittleEndian.Uint64(b[:]) >> 13, byID: make(map[string]chan *jsonrpc.Message)}
}

// add returns the id of a new request and the channel for its response.
func (q *questions) add() (id json.RawMessage, response <-chan *jsonrpc.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastID++
	id = strconv.AppendUint(nil, q.lastID, 10)
	responses := make(chan *jsonrpc.Message, 1)
	q.byID[string(id)] = responses
	return id, responses
}

// remove forgets a request.
func (q *questions) remove(id json.RawMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.byID, string(id))
}

// deliver delivers a response of the client; without a matching request it is dropped.
func (q *questions) deliver(m *jsonrpc.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if response := q.byID[string(m.ID)]; response != nil {
		delete(q.byID, string(m.ID))
		response <- m // buffered: there is one response
	}
}

// cancelTimeout bounds the write of notifications/cancelled.
const cancelTimeout = time.Second

// cancelQuestion tells the client that a request to it is cancelled.
func cancelQuestion(ctx context.Context, id json.RawMessage, write func(context.Context, *jsonrpc.Message) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	params := append(append([]byte(`{"requestId":`), id...), '}')
	_ = write(ctx, &jsonrpc.Message{Method: protocol.MethodCancelled, Params: params}) // MCP does not require it
}
