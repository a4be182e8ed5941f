package main

import (
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/exthost/exthost/internal/testing/registrytest"
)

// registries are the registries of the running scripts, by directory.
var registries sync.Map

// publish publishes the package in a folder: publish DIR [AGE]. The first call starts a registry for the script.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: publish DIR [AGE]")
	}
	work := ts.Getenv("WORK")
	known, started := registries.Load(work)
	if !started {
		npm := registrytest.StartNPM()
		known = npm
		registries.Store(work, npm)
		ts.Defer(func() {
			registries.Delete(work)
			npm.Close()
		})
		for name, value := range npm.Environ(work) {
			ts.Setenv(name, value)
		}
	}
	r, err := registrytest.ReleaseOf(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(args) == 2 {
		r.Age, err = time.ParseDuration(args[1])
		ts.Check(err)
	}
	known.(*registrytest.NPM).Publish(r)
}
