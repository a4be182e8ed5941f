package ndjson

import (
	"sync"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// largeBuffers are buffers of more than maxKeptBuffer bytes, shared by writers of large frames.
var largeBuffers sync.Pool

// withRoom returns buf, or a large buffer with the same content, with room for m. It at least doubles the buffer:
// otherwise every frame added while the peer does not read would copy all frames that wait.
func withRoom(buf []byte, m *jsonrpc.Message) []byte {
	need := len(buf) + len(m.Params) + len(m.Result) + len(m.Error) + len(m.Method) + len(m.ID) + 64
	if m.Encoder != nil {
		need += m.Encoder.Size()
	}
	if need <= maxKeptBuffer || need <= cap(buf) {
		return buf
	}
	large, ok := largeBuffers.Get().(*[]byte)
	if !ok || cap(*large) < need {
		made := make([]byte, 0, max(need, min(2*cap(buf), maxUnwritten)))
		large = &made
	}
	return append((*large)[:0], buf...)
}

// kept returns buf for reuse by its writer. A large buffer goes to the shared pool instead.
func kept(buf []byte) []byte {
	if cap(buf) <= maxKeptBuffer {
		return buf[:0]
	}
	if cap(buf) <= maxPooledBuffer {
		large := buf // on the heap, unlike small buffers
		largeBuffers.Put(&large)
	}
	return nil
}
