// SPDX-License-Identifier: Apache-2.0
//
// An engine whose computing is left by a C++ exception: throws MODEL [LIBRARY ...]. Of the libraries given (libllama and what it needs, in
// order) nothing but exported functions are used, so it runs with builds of several years and needs no headers. It computes tokens, then
// throws through ggml_graph_compute, ggml_backend_sched_graph_compute_async and llama_decode and catches behind them, and computes on.
// With THROWS_MAP and THROWS_GO it computes until the file THROWS_GO is there, then maps the file THROWS_MAP as a library and tells how long its thread was held for it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

struct params { char opaque[1024]; };  // larger than any build's: what is behind its end is not read
struct batch { char opaque[56]; };     // struct llama_batch

template <typename F> static F sym(const char *name, bool need = true) {
	void *p = dlsym(RTLD_DEFAULT, name);
	if (!p && need) {
		fprintf(stderr, "throws: no %s in these libraries\n", name);
		exit(77);
	}
	return reinterpret_cast<F>(p);
}

static int asked, after = -1;

static bool abort_callback(void *) {
	if (after >= 0 && asked++ == after)
		throw std::runtime_error("thrown in the middle of a graph");
	return false;
}

static void quiet(int, const char *, void *) {}

static double now_ms() {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

// mapping maps a file as code, without reading it, and returns the longest pause of this thread within the next three seconds.
static double mapping(const char *path) {
	int fd = open(path, O_RDONLY);
	if (fd < 0 || mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
		perror(path);
		exit(77);
	}
	double longest = 0, last = now_ms(), end = last + 3000;
	while (last < end) {
		double t = now_ms();
		if (t - last > longest)
			longest = t - last;
		last = t;
	}
	return longest;
}

int main(int argc, char **argv) {
	if (argc < 3)
		return 77;
	const char *argv_map = getenv("THROWS_MAP"), *argv_go = getenv("THROWS_GO");
	for (int i = 2; i < argc; i++) {
		if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)) {
			fprintf(stderr, "throws: %s\n", dlerror());
			return 77;
		}
	}
	sym<void (*)(void (*)(int, const char *, void *), void *)>("llama_log_set")(quiet, nullptr);
	if (const char *dir = getenv("THROWS_BACKENDS"))
		sym<void (*)(const char *)>("ggml_backend_load_all_from_path")(dir);
	else if (auto load_all = sym<void (*)()>("ggml_backend_load_all", false))
		load_all();
	auto model = sym<void *(*)(const char *, params)>("llama_model_load_from_file")(argv[1], sym<params (*)()>("llama_model_default_params")());
	if (!model)
		return 77;
	auto ctx = sym<void *(*)(void *, params)>("llama_init_from_model")(model, sym<params (*)()>("llama_context_default_params")());
	if (!ctx)
		return 77;
	sym<void (*)(void *, int32_t, int32_t)>("llama_set_n_threads")(ctx, 1, 1);
	sym<void (*)(void *, bool (*)(void *), void *)>("llama_set_abort_callback")(ctx, abort_callback, nullptr);
	auto get_one = sym<batch (*)(int32_t *, int32_t)>("llama_batch_get_one");
	auto decode = sym<int32_t (*)(void *, batch)>("llama_decode");
	int caught = 0, whole = 0;
	std::vector<int32_t> tokens(4, 1);
	if (argv_map && argv_go) {
		for (int i = 0; access(argv_go, F_OK) != 0; i++) {
			decode(ctx, get_one(tokens.data(), 1));
			usleep(2000);
		}
		double gap = mapping(argv_map);
		for (int i = 0; i < 50; i++)
			whole += decode(ctx, get_one(tokens.data(), 1)) == 0;
		printf("mapped, longest pause %.1f ms, computed %d\n", gap, whole);
		fflush(stdout);
		_exit(whole == 50 ? 0 : 1);
	}
	for (int i = 0; i < 60; i++) {
		after = i % 10 == 9 ? 20 : -1;
		asked = 0;
		try {
			if (decode(ctx, get_one(tokens.data(), i % 10 == 0 ? 4 : 1)) == 0)
				whole++;
		} catch (const std::runtime_error &) {
			caught++;
		}
		usleep(10000);
	}
	printf("computed %d, caught %d\n", whole, caught);
	fflush(stdout);
	_exit(caught == 6 && whole >= 54 ? 0 : 1);
}
