// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
)

// notify is signal.NotifyContext of those signals that are heeded.
func notify(ctx context.Context, sigs ...os.Signal) (context.Context, context.CancelFunc) {
	if sigs = heeded(sigs); len(sigs) == 0 { // none would mean all
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, sigs...)
}

// heeded leaves out signals that were ignored when profinfer started, which stay ignored: nohup ignores
// SIGHUP so that a recording outlives the login, and a shell without job control the SIGINT of what it starts
// in the background. What profinfer launches inherits the same.
func heeded(sigs []os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(sigs), signal.Ignored)
}
