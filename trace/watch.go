// SPDX-License-Identifier: Apache-2.0

package trace

// Watch writes that the observation of a process's operators changes at w.Time. It is repeated at the begin
// of segments, for readers that start there.
func (w *Writer) Watch(x Watch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	if w.defs.watches == nil {
		w.defs.watches = make(map[int32]Watch)
	}
	if len(w.defs.watches) >= maxThreads {
		clear(w.defs.watches)
	}
	w.defs.watches[x.PID] = x
	return w.json(TypeWatch, x, 1, x.Time, x.Time)
}

// rewatch repeats what is observed of each process.
func (w *Writer) rewatch() error {
	for _, p := range w.defs.procs {
		x, ok := w.defs.watches[p.pid]
		if !ok {
			continue
		}
		if err := w.json(TypeWatch, x, 1, w.now(), w.now()); err != nil {
			return err
		}
	}
	return nil
}
