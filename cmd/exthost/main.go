// Command exthost runs the extensions of a folder and serves their tools.
package main

import (
	"os"

	"github.com/exthost/exthost/internal/cli"
	"github.com/exthost/exthost/internal/proc/process"
)

func main() {
	process.CloseOnExecAll()
	process.Conceal()
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
