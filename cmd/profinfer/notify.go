// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
)

// notify is signal.NotifyContext for the signals that are not ignored.
func notify(ctx context.Context, sigs ...os.Signal) (context.Context, context.CancelFunc) {
	if sigs = heeded(sigs); len(sigs) == 0 { // an empty list would mean all
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, sigs...)
}

// heeded removes signals that were ignored when profinfer started; these stay ignored. nohup ignores SIGHUP
// so that a recording outlives the login, and a shell without job control ignores SIGINT for what it starts
// in the background. Programs that profinfer launches inherit this.
func heeded(sigs []os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(sigs), signal.Ignored)
}
