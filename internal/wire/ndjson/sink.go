package ndjson

import (
	"io"
	"time"
)

// streamSink writes to any writer. It cannot write without blocking, so try writes nothing.
type streamSink struct{ w io.WriteCloser }

// streamChunk is the size of one write. The peer must take it within the timeout, because partial progress is not
// visible.
const streamChunk = 64 << 10

func (s streamSink) try([]byte) (int, error) { return 0, nil }

func (s streamSink) write(b []byte, timeout time.Duration) (int, error) {
	watch := time.AfterFunc(timeout, func() { _ = s.w.Close() }) // unblocks Write
	n, err := s.w.Write(b[:min(len(b), streamChunk)])
	if !watch.Stop() && err != nil {
		err = ErrStalled
	}
	return n, err
}
