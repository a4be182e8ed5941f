//go:build !linux

package check

import (
	"context"
	"os"
	"syscall"
)

func terminate(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGTERM)
}

func (*subject) orphans(context.Context) ([]string, error) { return nil, errUnsupported }
