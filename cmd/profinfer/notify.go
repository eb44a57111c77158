// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
)

// notify is signal.NotifyContext, except that a signal which was ignored when profinfer started stays ignored: nohup ignores SIGHUP so
// that a recording outlives the login, and a shell without job control the SIGINT of what it starts in the background. What profinfer
// launches inherits the same.
func notify(ctx context.Context, sigs ...os.Signal) (context.Context, context.CancelFunc) {
	sigs = slices.DeleteFunc(slices.Clone(sigs), signal.Ignored)
	if len(sigs) == 0 { // none would mean all
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, sigs...)
}
