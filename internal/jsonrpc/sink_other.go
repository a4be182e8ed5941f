//go:build !unix

package jsonrpc

import "io"

func newSink(w io.WriteCloser) sink { return streamSink{w} }
