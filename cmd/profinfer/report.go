// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/report"
)

func reportCommand() *cobra.Command {
	var in []string
	var out string
	var flags roofFlags
	var only partFlags
	c := &cobra.Command{
		Use:   "report [FILE...]",
		Short: "Write an HTML report: verdict, operator graph, timeline, statistics",
		Long: `Report writes one self-contained HTML file that needs no network: the verdict, the operator graph
coloured by cost, the timeline of every thread and CPU, statistics and plots. Several recordings are
shown side by side.

Of a long recording, --from, --to, --steps and --phase show a part: the steps that lie wholly in it.
What lies outside is not unpacked, so that takes little time. Times and numbers of steps stay those
of the whole recording; what is left out is reported. The file is readable by its owner alone. A
file named with -o is replaced; beside the recording only an earlier report is.`,
		Example: `  profinfer report -o report.html
  profinfer report q4_0.pinf q8_0.pinf -o compare.html
  profinfer report --from 90s --to 95s
  profinfer report --steps 5100-5120`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			in, err := inputs(c, in, args)
			if err != nil {
				return err
			}
			asked := out != ""
			if !asked {
				out = strings.TrimSuffix(in[0], ".pinf") + ".html"
			}
			for _, name := range in {
				if sameFile(name, out) {
					return usage("-o %s is the recording itself: name another file", out)
				}
			}
			top, err := flags.roof()
			if err != nil {
				return err
			}
			part, err := only.part()
			if err != nil {
				return err
			}
			return doReport(in, out, asked, top, part)
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&in, "input", "i", []string{defaultTrace},
		"recording to read, as FILE is; more than one: side by side")
	f.StringVarP(&out, "output", "o", "",
		"file to write, - for standard output (default: the first recording's name with .html)")
	flags.add(c)
	only.add(c)
	f.StringVar(&only.phase, "phase", "", "show only this phase: prefill, decode, encode or unknown")
	return c
}

func doReport(in []string, out string, asked bool, top *machineRoof, part profile.Part) error {
	runs, err := loadRuns(in, top, part)
	if err != nil {
		return err
	}
	if err := writeTo(out, asked, report.IsPage, func(w io.Writer) error {
		return report.Write(w, "profinfer "+version(), runs)
	}); err != nil {
		return err
	}
	if out != "-" {
		say("profinfer: wrote %s", out)
	}
	return nil
}

func serveCommand() *cobra.Command {
	var in []string
	var listen string
	var flags roofFlags
	c := &cobra.Command{
		Use:   "serve [FILE...]",
		Short: "Serve the HTML report on loopback, for recordings too large for one file",
		Long: `Serve shows the HTML report to a browser on this machine until it is interrupted, with all that a
file would leave out.

It prints the address to open. The address has a token that is new each time: without it nothing is
shown, also to other users of this machine. From elsewhere: ssh -L 7070:127.0.0.1:7070 HOST, and
then the same address.`,
		Example: `  profinfer serve
  profinfer serve q4_0.pinf q8_0.pinf --listen 127.0.0.1:8080`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			in, err := inputs(c, in, args)
			if err != nil {
				return err
			}
			top, err := flags.roof()
			if err != nil {
				return err
			}
			return doServe(in, listen, top)
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&in, "input", "i", []string{defaultTrace},
		"recording to read, as FILE is; more than one: side by side")
	f.StringVar(&listen, "listen", "127.0.0.1:7070", "address and port; port 0 takes a free one")
	flags.add(c)
	return c
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// loadRuns reads recordings for the page.
func loadRuns(in []string, top *machineRoof, part profile.Part, opts ...report.Option) ([]*report.Run,
	error) {
	var runs []*report.Run
	for _, name := range in {
		chosen, err := find(name, part)
		if err != nil {
			return nil, err
		}
		r, err := trace.Open(name)
		if err != nil {
			return nil, err
		}
		var torn string
		read := showProgress(r)
		run, err := report.Load(name, func(s profile.Sink) (*profile.Header, error) {
			h, err := profile.ReplayPart(r, s, chosen, nil)
			if h != nil {
				torn = h.Torn
			}
			return h, err
		}, append(slices.Clone(opts), report.Peaks(top.peaks))...)
		read()
		r.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if torn != "" {
			warn("%s: %s", name, torn)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func doServe(in []string, listen string, top *machineRoof) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usage("--listen is an address and a port, such as 127.0.0.1:7070: %v", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usage("--listen takes an address of this machine's loopback (127.0.0.1, ::1, localhost): a recording tells names and command lines. From elsewhere: ssh -L 7070:127.0.0.1:7070 HOST")
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; another port: --listen 127.0.0.1:0", listen, err)
	}
	defer l.Close()
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("%s is no address of this machine's loopback here, but %s", listen, l.Addr())
	}
	runs, err := loadRuns(in, top, profile.Part{}, report.WholeTimeline())
	if err != nil {
		return err
	}
	// Not earlier: while recordings are read, an interrupt ends the program as usual.
	ctx, stop := notify(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	token := rand.Text()
	// Requests are short, but answers can take as long as the connection to a browser behind ssh needs.
	srv := &http.Server{Handler: report.Local(report.Guard(token,
		report.Handler("profinfer "+version(), runs))),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
	fmt.Printf("http://%s/?token=%s\n", l.Addr(), token)
	say("profinfer: serving until interrupted")
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if srv.Shutdown(end) != nil {
			srv.Close() // browsers keep connections open that they may never use
		}
		return nil
	case err := <-done:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}
