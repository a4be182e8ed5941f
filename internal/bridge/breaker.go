package bridge

import (
	"sync"
	"time"

	"github.com/exthost/exthost/protocol"
)

// The limits after which connections to a destination are refused.
const (
	maxFailures   = 3                // consecutive failures …
	failureWindow = 5 * time.Minute  // … within this time open a breaker
	cooldown      = 30 * time.Second // from the latest failure, or trial, to the next trial
)

// breaker counts consecutive failures. While it is open, one call in each cooldown goes
// through as a trial.
type breaker struct {
	failures []time.Time // since the last success, the latest maxFailures
	until    time.Time   // when the next trial may go through; zero while closed
	cause    error       // of the latest failure
}

func (b *breaker) recordFailure(now time.Time, cause error) {
	b.failures = append(b.failures, now)
	b.failures = b.failures[max(0, len(b.failures)-maxFailures):]
	b.cause = cause
	if b.open(now) {
		b.until = now.Add(cooldown)
	}
}

func (b *breaker) open(now time.Time) bool {
	return !b.until.IsZero() || len(b.failures) == maxFailures && now.Sub(b.failures[0]) < failureWindow
}

// refusal returns why a call may not go through; nil when it may.
func (b *breaker) refusal(now time.Time) error {
	if !now.Before(b.until) {
		return nil
	}
	wait := b.until.Sub(now)
	e := protocol.Errorf(protocol.NotReady, "it failed %d times in a row, the last time: %s; the next try is in %s", maxFailures, protocol.Reason(b.cause), wait.Round(time.Second))
	e.RetryAfter, e.Evidence = wait, protocol.EvidenceOf(b.cause)
	return e
}

// admit is refusal for a call that goes through if it may: the call is the trial then.
func (b *breaker) admit(now time.Time) error {
	err := b.refusal(now)
	if err == nil && !b.until.IsZero() {
		b.until = now.Add(cooldown)
	}
	return err
}

// breakers are those of one destination: one for each key whose instance ended while it
// served, and one for all instances that ended before they were ready.
type breakers struct {
	mu    sync.Mutex
	byKey map[string]*breaker // of keys that failed since they last worked
}

// starts is the key of the breaker of starts. No instance has it.
const starts = "\x00starts"

// admit returns why a call for an instance may not go through. lives says that the call
// needs no start.
func (b *breakers) admit(now time.Time, key string, lives bool) error {
	return b.ask(key, lives, func(one *breaker) error { return one.admit(now) })
}

// refusal is admit without a call.
func (b *breakers) refusal(now time.Time, key string, lives bool) error {
	return b.ask(key, lives, func(one *breaker) error { return one.refusal(now) })
}

func (b *breakers) ask(key string, lives bool, ask func(*breaker) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range [...]string{key, starts} {
		if one := b.byKey[k]; one != nil && (k == key || !lives) {
			if err := ask(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxBreakers bounds the keys with failures that are remembered.
const maxBreakers = 1024

func (b *breakers) recordFailure(now time.Time, key string, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey[key] == nil {
		if b.byKey == nil {
			b.byKey = make(map[string]*breaker)
		}
		for other := range b.byKey {
			if len(b.byKey) < maxBreakers {
				break
			}
			delete(b.byKey, other)
		}
		b.byKey[key] = new(breaker)
	}
	b.byKey[key].recordFailure(now, cause)
}

// reset forgets the failures of keys, or of all when none is given.
func (b *breakers) reset(keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(keys) == 0 {
		clear(b.byKey)
	}
	for _, key := range keys {
		delete(b.byKey, key)
	}
}
