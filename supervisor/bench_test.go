package supervisor

import (
	"context"
	"testing"
)

// BenchmarkAcquire measures the hot path: a Ready shared slot with room.
func BenchmarkAcquire(b *testing.B) {
	g := NewGroup(func(string) (idleService, error) { return idleService{}, nil }, Options{MaxInFlight: 1 << 20})
	ctx := context.Background()
	if err := g.Start(ctx); err != nil {
		b.Fatal(err)
	}
	defer g.Stop(ctx, 0)
	call := func() {
		_, release, err := g.Acquire(ctx, "")
		if err != nil {
			b.Error(err)
			return
		}
		release(nil)
	}
	b.Run("sequential", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}

// idleService is ready at once and runs until it is stopped.
type idleService struct{}

func (idleService) Serve(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	return ctx.Err()
}
