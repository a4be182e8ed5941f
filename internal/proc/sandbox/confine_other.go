//go:build !linux

package sandbox

import "runtime"

// Confine does nothing on this system.
func (p *Policy) Confine(string) error {
	_, err := p.Check()
	return err
}

func (p *Policy) protection() Protection {
	return Protection{
		Lacks: []string{"files, system calls and network: only Linux enforces a sandbox, and this is " + runtime.GOOS},
	}
}
