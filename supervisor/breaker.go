package supervisor

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerState is what a breaker does with calls.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // calls pass
	BreakerOpen     BreakerState = "open"      // calls are refused
	BreakerHalfOpen BreakerState = "half_open" // one call, the probe, is under way; others are refused
)

// outcome is what a call says about its instance.
type outcome int

const (
	succeeded outcome = iota // it answered
	faulted                  // it did not
	excluded                 // it was not asked, or not given the time
)

var errFaulted, errExcluded = errors.New("faulted"), errors.New("excluded")

func (o outcome) err() error { return [...]error{nil, errFaulted, errExcluded}[o] }

// breaker refuses calls to an instance that keeps failing them. It is a
// gobreaker circuit with two additions: a failed probe puts one with twice the
// timeout in its place, and a success while all is well, the common case by far,
// costs nothing. Its owner's lock guards it.
type breaker struct {
	Breaker
	name    string
	timeout time.Duration // of the circuit in place
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]

	state   BreakerState
	epoch   uint64    // counts changes of state: what began before one says nothing after it
	until   time.Time // while open: when the probe may pass
	probing bool      // while half open: the probe is under way
	failing bool      // while closed: the latest outcome was a fault
}

// ticket is a call's right to report its outcome.
type ticket struct {
	epoch uint64
	probe func(error) // nil unless the call is the probe
}

func newBreaker(name string, o Breaker) *breaker {
	return &breaker{Breaker: o, name: name, state: BreakerClosed}
}

// permits reports whether admit would let a call pass.
func (b *breaker) permits(now time.Time) bool {
	switch b.state {
	case BreakerOpen:
		return !now.Before(b.until)
	case BreakerHalfOpen:
		return !b.probing
	}
	return true
}

// admit lets a call pass; permits must have said so.
func (b *breaker) admit() ticket {
	if b.state == BreakerClosed {
		return ticket{epoch: b.epoch}
	}
	done, err := b.circuit.Allow()
	if err != nil { // its clock reads no earlier than the one permits was asked with
		panic("supervisor: breaker out of step: " + err.Error())
	}
	b.probing = true
	return ticket{epoch: b.epoch, probe: done}
}

// report counts the outcome of a call that was admitted with t.
func (b *breaker) report(t ticket, o outcome) {
	switch {
	case t.epoch != b.epoch:
	case t.probe != nil:
		b.reportProbe(t.probe, o)
	case o == faulted, o == succeeded && b.failing:
		b.failing = o == faulted
		b.record(o)
	}
}

func (b *breaker) reportProbe(done func(error), o outcome) {
	b.probing = false
	done(o.err())
	switch b.state {
	case BreakerOpen:
		b.install(min(2*b.timeout, b.MaxTimeout))
		for b.state != BreakerOpen {
			b.record(faulted)
		}
	case BreakerClosed:
		b.circuit, b.failing = nil, false
	}
}

// record counts one outcome on the closed circuit, which is made for the first fault.
func (b *breaker) record(o outcome) {
	if b.circuit == nil {
		b.install(b.Timeout)
	}
	if done, err := b.circuit.Allow(); err == nil { // closed: always
		done(o.err())
	}
}

// install puts a closed circuit with the given timeout in place.
func (b *breaker) install(timeout time.Duration) {
	b.timeout, b.state = timeout, BreakerClosed
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         b.name,
		Timeout:      timeout - 1, // gobreaker reopens after the timeout, we at it
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= b.Threshold },
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return err == errExcluded },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.moved(to)
		},
	})
}

func (b *breaker) moved(to gobreaker.State) {
	b.epoch++
	switch to {
	case gobreaker.StateOpen:
		b.state, b.until = BreakerOpen, time.Now().Add(b.timeout)
	case gobreaker.StateHalfOpen:
		b.state = BreakerHalfOpen
	case gobreaker.StateClosed:
		b.state = BreakerClosed
	}
}
