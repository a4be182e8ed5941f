package supervisor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/exthost/exthost/supervisor"
)

// clock is a service without a process.
type clock struct{}

func (clock) Serve(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	return ctx.Err()
}

func (clock) Year() int { return time.Unix(0, 0).UTC().Year() }

func ExampleGroup() {
	ctx := context.Background()
	g := supervisor.NewGroup(func(string) (clock, error) { return clock{}, nil }, supervisor.Options{
		Name:    "clock",
		Restart: supervisor.Restart{MaxAttempts: 5},
	})
	if err := g.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	c, release, err := g.Acquire(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Year())
	release(nil)
	fmt.Println(g.Status()[0].State, g.Stop(ctx, time.Second))
	// Output:
	// 1970
	// ready <nil>
}
