package caller

import "sync"

// Strangers remembers which reasons of refusals have been logged, up to MaxStrangers.
type Strangers struct {
	mu   sync.Mutex
	told map[string]bool
}

// MaxStrangers is the max number of reasons logged.
const MaxStrangers = 64

// IsNew reports whether a reason should be logged; it does so once per reason.
func (s *Strangers) IsNew(why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[why] || len(s.told) >= MaxStrangers {
		return false
	}
	if s.told == nil {
		s.told = make(map[string]bool)
	}
	s.told[why] = true
	return true
}
