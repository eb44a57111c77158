// SPDX-License-Identifier: Apache-2.0

package trace

import "container/list"

// shapeCache bounds the packed shapes kept in memory for repetition. Further ones are read back from their
// file when needed again.
const shapeCache = 32 << 20

// maxShapes bounds the known shapes, in memory or by their place in a file. It is twice what the kernel side
// remembers, so the kernel side has usually forgotten them first.
const maxShapes = 1 << 14

type shapeKey struct {
	pid int32
	id  uint64
}

// ShapeID identifies a shape: the same ID in two processes is two shapes.
type ShapeID struct {
	PID int32
	ID  uint64
}

// shapeDef is a shape that was written.
type shapeDef struct {
	definition
	key shapeKey
	el  *list.Element // in hot if its bytes are in memory, otherwise in cold
}

// shapeBook contains the shapes that may have to be repeated. Its memory does not grow with the length of a
// recording.
type shapeBook struct {
	shapes    map[shapeKey]*shapeDef
	hot, cold *list.List // of *shapeDef, most recently used first
	shapesMem int        // bytes of the hot ones
	forgotten []ShapeID
}

func newShapeBook() shapeBook {
	return shapeBook{shapes: map[shapeKey]*shapeDef{}, hot: list.New(), cold: list.New()}
}

// put adds or replaces a shape whose bytes are in memory.
func (b *shapeBook) put(k shapeKey, d *definition) {
	b.drop(b.shapes[k])
	s := &shapeDef{definition: *d, key: k}
	s.el = b.hot.PushFront(s)
	b.shapes[k] = s
	b.shapesMem += len(s.stored)
	b.trim()
}

// use notes that a shape is needed now.
func (b *shapeBook) use(s *shapeDef) {
	if s.stored == nil {
		b.cold.MoveToFront(s.el)
	} else {
		b.hot.MoveToFront(s.el)
	}
}

// warm keeps the bytes of a shape that was read back.
func (b *shapeBook) warm(s *shapeDef, stored []byte) {
	b.cold.Remove(s.el)
	s.stored = append([]byte(nil), stored...)
	s.el = b.hot.PushFront(s)
	b.shapesMem += len(s.stored)
	b.trim()
}

// drop removes a shape from the book.
func (b *shapeBook) drop(s *shapeDef) {
	if s == nil {
		return
	}
	if s.stored == nil {
		b.cold.Remove(s.el)
	} else {
		b.hot.Remove(s.el)
		b.shapesMem -= len(s.stored)
	}
	delete(b.shapes, s.key)
}

// forget drops a shape that may still be needed, and notes that it must be defined anew.
func (b *shapeBook) forget(s *shapeDef) {
	b.drop(s)
	if len(b.forgotten) < maxShapes { // otherwise nobody asks
		b.forgotten = append(b.forgotten, ShapeID{s.key.pid, s.key.id})
	}
}

// trim drops the least recently used packed shapes, then shapes.
func (b *shapeBook) trim() {
	for b.shapesMem > shapeCache && b.hot.Len() > 0 {
		s := b.hot.Back().Value.(*shapeDef)
		if s.at.gone {
			b.forget(s)
			continue
		}
		b.hot.Remove(s.el)
		b.shapesMem -= len(s.stored)
		s.stored = nil
		s.el = b.cold.PushFront(s)
	}
	for len(b.shapes) > maxShapes {
		oldest := b.cold.Back()
		if oldest == nil {
			oldest = b.hot.Back()
		}
		b.forget(oldest.Value.(*shapeDef))
	}
}

// lose forgets the shapes that are only in a file about to be removed.
func (b *shapeBook) lose(p *place) {
	p.gone = true
	for e := b.cold.Front(); e != nil; {
		s := e.Value.(*shapeDef)
		e = e.Next()
		if s.at == p {
			b.forget(s)
		}
	}
}

// Forgotten returns, once each, the shapes that the writer no longer knows, because there were too many
// others or because their file was removed. A mark that refers to one should not precede its new definition.
func (w *Writer) Forgotten() []ShapeID {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.defs.forgotten
	w.defs.forgotten = nil
	return f
}
