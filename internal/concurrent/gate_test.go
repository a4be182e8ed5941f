package concurrent

import (
	"sync"
	"testing"
)

func TestGate(t *testing.T) {
	var g Gate
	release, began := make(chan struct{}), make(chan struct{})
	if !g.Go(func() { close(began); <-release }) {
		t.Fatal("an open gate admits nothing")
	}
	<-began
	idle := g.Close()
	if g.Enter() || g.Go(func() { t.Error("it ran") }) {
		t.Error("a closed gate admits more")
	}
	select {
	case <-idle:
		t.Fatal("idle while something is inside")
	default:
	}
	close(release)
	<-idle
	<-g.Close()

	var empty Gate
	<-empty.Close()
}

// No admitted work is in flight once the gate is idle, however much comes while it closes.
func TestGateRace(t *testing.T) {
	for range 200 {
		var g Gate
		var callers sync.WaitGroup
		inside := make(chan struct{}, 8)
		for range 8 {
			callers.Go(func() {
				if g.Enter() {
					inside <- struct{}{}
					<-inside
					g.Leave()
				}
			})
		}
		<-g.Close()
		if len(inside) != 0 {
			t.Fatal("something is inside")
		}
		callers.Wait()
	}
}

// A draining gate admits work while other work is in flight, and none afterwards.
func TestGateDrain(t *testing.T) {
	var g Gate
	if !g.Enter() {
		t.Fatal("an open gate admits nothing")
	}
	idle := g.Drain()
	if !g.Enter() {
		t.Error("a draining gate with work inside admits no more")
	}
	g.Leave()
	select {
	case <-idle:
		t.Fatal("idle while something is inside")
	default:
	}
	g.Leave()
	<-idle
	if g.Enter() {
		t.Error("a drained gate admits more")
	}
	<-g.Close()
}

// Close ends the admission by a draining gate.
func TestGateCloseWhileDraining(t *testing.T) {
	var g Gate
	g.Enter()
	idle := g.Drain()
	g.Close()
	if g.Enter() {
		t.Error("a closed gate admits more")
	}
	g.Leave()
	<-idle
}
