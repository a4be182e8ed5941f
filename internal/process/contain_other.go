//go:build !linux

package process

import (
	"runtime"
	"time"
)

// held is what holds each child.
func held() (holds, lacks []string) {
	if runtime.GOOS == "windows" {
		return nil, []string{HoldsGroup + ": not on Windows, where only the child itself is ended", HoldsSweep + ": only on Linux"}
	}
	return []string{HoldsGroup}, []string{HoldsSweep + ": only on Linux"}
}

// guardian is a process that exists on Linux only.
type guardian struct {
	ready bool
	began time.Time
}

func startGuardian(string, string, map[int]uint64) (*guardian, error) { return nil, errNotGuardian }

func (*guardian) booted() bool             { return false }
func (*guardian) ended() bool              { return true }
func (*guardian) tell(string, int, uint64) {}
func (*guardian) watch()                   {}
func (*guardian) close()                   {}

// Reenter does nothing on this system.
func Reenter() {}

func startTime(int) uint64 { return 0 }

func (*hold) sweep()           {}
func (*Containment) sweepAll() {}
