//go:build !unix

package jsonrpc

import "io"

// pollable is for systems where inherited files can be polled or never can.
func Pollable[F io.Closer](f F) (F, func()) { return f, func() {} }
