//go:build !unix

package ndjson

import "io"

func newSink(w io.WriteCloser) sink { return streamSink{w} }

// Pollable returns f: on these systems an inherited file needs no change, or cannot be
// polled at all.
func Pollable[F io.Closer](f F) (F, func()) { return f, func() {} }
