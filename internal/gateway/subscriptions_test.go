package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// One session follows a bounded number of resources, and others as many.
func TestSubscriptionsAreBounded(t *testing.T) {
	l, ada, bob := newSubscriptions(nil), new(protocol.Session), new(protocol.Session)
	at := func(n int) subscription { return subscription{uri: fmt.Sprintf("test://%04d", n)} }
	n := 0
	for ; l.hasRoom(at(n), ada); n++ {
		l.add(at(n), ada)
		l.add(at(n), ada)
	}
	if n < 256 || n > maxFollowed/256 || len(l.followedBy(ada)) != n {
		t.Errorf("%d resources are followed", n)
	}
	if !l.hasRoom(at(0), ada) || !l.hasRoom(at(n), bob) || l.hasRoom(subscription{uri: strings.Repeat("x", maxFollowed)}, bob) {
		t.Error("what is followed already, or by another, is counted")
	}
	l.remove(at(0), ada)
	l.remove(at(0), ada)
	if !l.hasRoom(at(n), ada) {
		t.Error("what is followed no more is counted")
	}
	if idle := l.drop(ada); len(idle) != n-1 || len(l.to)+len(l.bytes) != 0 {
		t.Errorf("%d are idle, %d and %d are left", len(idle), len(l.to), len(l.bytes))
	}
}
