package unit

import (
	"maps"
	"slices"
	"sync"

	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// instances are the instances that may have a process.
type instances struct {
	mu  sync.Mutex // guards set
	set map[*Instance]struct{}
}

func (l *instances) add(i *Instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set == nil {
		l.set = make(map[*Instance]struct{})
	}
	l.set[i] = struct{}{}
}

// remove removes an ended instance, whose counts are added to c.
func (l *instances) remove(i *Instance, c *stats.Calls) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.set, i)
	c.Ended(i.Info())
}

// Instances returns the instances that may have a process.
func (l *instances) Instances() []*Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.set))
}

// infos returns the state of the instances by key. If two have the same key, the newer counts.
func (l *instances) infos() map[string]runtime.Info {
	all := make(map[string]runtime.Info)
	for _, i := range l.Instances() {
		info := i.Info()
		if other, ok := all[i.Key]; !ok || info.StartedAt.After(other.StartedAt) {
			all[i.Key] = info
		}
	}
	return all
}

// measure returns the counts of c and the instances.
func (l *instances) measure(id string, c *stats.Calls) status.ExtensionMeasure {
	l.mu.Lock() // no instance ends meanwhile
	defer l.mu.Unlock()
	var running []runtime.Info
	for i := range l.set {
		running = append(running, i.Info())
	}
	return c.Measure(id, running)
}
