// SPDX-License-Identifier: Apache-2.0
//
// Drives one npm build of llama.cpp: evaluates a prompt and decodes tokens greedily,
// so that the same model gives the same tokens every time.
//
//   node npm-run.mjs DIR MODEL [--prompt N] [--tokens M] [--threads T] [--ctx C]
//                              [--repeat R] [--wait]
//
// DIR is a folder in which npm installed node-llama-cpp. The prompt is the tokens
// 1 to N. MODEL must have a vocabulary. --repeat does it all R times (each from an
// empty context) and prints the tokens of every round; --wait loads the model, prints
// "ready", and begins when a line (or the end) comes on stdin: time to attach.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import path from "node:path";
import process from "node:process";

const usage = "usage: node npm-run.mjs DIR MODEL [--prompt N] [--tokens M] [--threads T] [--ctx C] [--repeat R] [--wait]";

function fail(status, message) {
    console.error(`npm-run: ${message}`);
    process.exit(status);
}

function args() {
    const opt = {prompt: 16, tokens: 8, threads: 2, ctx: 512, repeat: 1, wait: false};
    const rest = [];
    for (let argv = process.argv.slice(2); argv.length > 0;) {
        const a = argv.shift();
        const name = a.replace(/^--/, "");
        if (a === "--wait") {
            opt.wait = true;
        } else if (a.startsWith("--") && Object.hasOwn(opt, name)) {
            const n = Number(argv.shift());
            if (!Number.isInteger(n) || n < 1 || n > 1 << 20)
                fail(2, `${a} wants a number from 1 to ${1 << 20}\n${usage}`);
            opt[name] = n;
        } else {
            rest.push(a);
        }
    }
    if (rest.length !== 2)
        fail(2, usage);
    return {...opt, dir: path.resolve(rest[0]), model: path.resolve(rest[1])};
}

// The package cannot be imported by name from outside of DIR, and its "exports" hide
// package.json: resolve its entry as a file of DIR would.
async function driver(dir) {
    const from = createRequire(path.join(dir, "entry.js"));
    for (const base of from.resolve.paths("node-llama-cpp") ?? []) {
        const entry = path.join(base, "node-llama-cpp", "dist", "index.js");
        try {
            return await import(pathToFileURL(entry).href);
        } catch (err) {
            if (err.code !== "ERR_MODULE_NOT_FOUND" || !String(err.message).includes(entry))
                throw err;
        }
    }
    return fail(1, `node-llama-cpp is not installed in ${dir}: npm install --prefix ${dir} --ignore-scripts node-llama-cpp@VERSION`);
}

async function main() {
    const opt = args();
    const {getLlama, LlamaLogLevel} = await driver(opt.dir);
    const llama = await getLlama({
        gpu: false, build: "never", skipDownload: true, progressLogs: false,
        logLevel: LlamaLogLevel?.error ?? "error", maxThreads: opt.threads
    });
    const model = await llama.loadModel({modelPath: opt.model, gpuLayers: 0});
    const context = await model.createContext({
        contextSize: opt.ctx, batchSize: opt.ctx, sequences: 1, threads: opt.threads
    });
    if (opt.wait) {
        console.log("ready");
        process.stdin.resume();
        await new Promise((resolve) => {
            process.stdin.once("data", resolve);
            process.stdin.once("end", resolve);
        });
        process.stdin.pause();
    }
    const prompt = Array.from({length: opt.prompt}, (_, i) => i + 1);
    for (let round = 0; round < opt.repeat; round++) {
        const sequence = context.getSequence();
        const tokens = [];
        for await (const token of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
            tokens.push(token);
            if (tokens.length >= opt.tokens)
                break;
        }
        sequence.dispose();
        console.log(tokens.join(" "));
    }
    await context.dispose();
    await model.dispose();
    await llama.dispose();
}

await main().catch((err) => fail(1, err?.stack ?? String(err)));
