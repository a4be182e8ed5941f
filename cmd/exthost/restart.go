package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/status"
)

func (a *app) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart ID",
		Short: "Restart one extension of the running exthost; also one that has failed",
		Long: "Have the exthost that serves this directory replace the processes of one extension and\n" +
			"forget its failures. Calls in flight may end first. Returns when the new process can be\n" +
			"called, or says why it cannot.",
		Args:              one("the id of an extension"),
		ValidArgsFunction: a.completeExtension,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.running(cmd.Context())
			if err != nil {
				return err
			}
			s, err := r.status(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := findWorker(s, args[0]); err != nil {
				return err
			}
			began := time.Now()
			if err := r.restart(cmd.Context(), args[0]); err != nil {
				return err
			}
			if s, err = r.status(cmd.Context()); err != nil {
				return err
			}
			x, err := findWorker(s, args[0])
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s is %s after %s", x.ID, x.State, span(time.Since(began)))
			if pid := pidOf(x); pid > 0 {
				text += fmt.Sprintf(", pid %d", pid)
			}
			return a.print(document{Kind: "extension", Value: x, Names: []string{x.ID}, Text: text})
		},
	}
}

// pidOf is the process of an extension that has one.
func pidOf(x status.Extension) int {
	if len(x.Instances) == 1 {
		return x.Instances[0].PID
	}
	return 0
}
