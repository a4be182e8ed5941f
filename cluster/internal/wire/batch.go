package wire

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Batches is the feature of a node that reads several messages in one.
const Batches = "batches"

// batch begins a message that holds others: the length of each as a varint, and the message. No
// head begins with it.
const batch = 0

// BatchRoom bounds the bytes that a message in a batch has beside its own.
const BatchRoom = 1 + binary.MaxVarintLen32

// AppendToBatch appends a message to a batch, which is empty at first.
func AppendToBatch(out, m []byte) []byte {
	if len(out) == 0 {
		out = append(out, batch)
	}
	return append(binary.AppendUvarint(out, uint64(len(m))), m...)
}

// Messages yields the messages of a batch, or m if it is none. Where a batch cannot be read it yields an
// empty message, which has no head, and ends.
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
			if !yield(bytes.Clone(rest[n:end])) { // kept, a short result would keep the batch
				return
			}
			rest = rest[end:]
		}
	}
}
