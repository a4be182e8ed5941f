package caller

import "sync"

// Strangers are the reasons of refusals that were logged already. Beyond MaxStrangers no more is logged.
type Strangers struct {
	mu   sync.Mutex
	told map[string]bool
}

// MaxStrangers is how many reasons are logged.
const MaxStrangers = 64

// IsNew reports whether a reason is to be logged, once.
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
