package wire

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Batches is the feature that a node announces if it reads batches.
const Batches = "batches"

// batch is the first byte of a batch. No head begins with it. After it, each message is preceded by its length as a
// varint.
const batch = 0

// BatchRoom bounds the overhead of a message in a batch, in bytes.
const BatchRoom = 1 + binary.MaxVarintLen32

// AppendToBatch appends a message to a batch, which may be empty.
func AppendToBatch(out, m []byte) []byte {
	if len(out) == 0 {
		out = append(out, batch)
	}
	return append(binary.AppendUvarint(out, uint64(len(m))), m...)
}

// Messages yields the messages of a batch, or m itself if it is not a batch. It yields an empty message,
// which does not decode, at the first error.
func Messages(m []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(m) == 0 || m[0] != batch {
			yield(m)
			return
		}
		for rest := m[1:]; len(rest) > 0; {
			size, n := binary.Uvarint(rest)
			if n <= 0 || size > uint64(len(rest)-n) {
				yield(nil)
				return
			}
			end := n + int(size)
			if !yield(bytes.Clone(rest[n:end])) { // a short message must not keep the whole batch alive
				return
			}
			rest = rest[end:]
		}
	}
}
