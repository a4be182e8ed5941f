//go:build !linux

package process

import (
	"context"
	"os"
)

// CanIsolate says whether [Spec.Isolate] has an effect on this system.
const CanIsolate = false

// initLink exists on Linux only.
type initLink struct{}

func startIsolated(_ context.Context, _ string, argv []string, attr *os.ProcAttr, l Limits) (*os.Process, *initLink, error) {
	proc, err := startProcess(argv[0], argv, attr, l)
	return proc, nil, err
}

func (*initLink) exit(init Exit) Exit { return init }
