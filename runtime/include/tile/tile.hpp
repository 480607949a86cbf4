/* tile.hpp: tile.h for C++17: objects that free themselves, arguments that convert, errors as exceptions.
 *
 *     tile::context ctx("cpu");
 *     tile::kernel softmax = ctx.load("softmax.tile").kernel("softmax", { { "T", TILE_F32 } });
 *     tile::tensor x(ctx, TILE_F32, { 1000, 777 }), y(ctx, TILE_F32, { 1000, 777 });
 *     softmax(x, y);
 *
 * What tile.h says of its functions holds for those of the same name here. A call that fails throws
 * tile::error with the status and the text; kernel::try_launch returns the status instead. Objects move and
 * do not copy, but for contexts, which are shared: whatever was made from a context keeps it open. */
#ifndef TILE_TILE_HPP
#define TILE_TILE_HPP

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tile.h"

namespace tile
{

/* A call of libtile failed: nothing was launched and nothing was created. what() is the text. */
class error : public std::runtime_error
{
  public:
    error(tile_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    tile_status status() const noexcept { return status_; }

  private:
    tile_status status_;
};

namespace detail
{

inline void check(tile_context *c, tile_status status)
{
    if (status == TILE_OK) return;
    std::string text(tile_context_error(c, nullptr, 0) + 1, '\0');
    tile_context_error(c, &text[0], text.size());
    text.pop_back();
    throw error(status, text.empty() ? tile_status_name(status) : text);
}

struct free_module {
    void operator()(tile_module *m) const noexcept { tile_module_destroy(m); }
};
struct free_kernel {
    void operator()(tile_kernel *k) const noexcept { tile_kernel_destroy(k); }
};

} // namespace detail

class module;

/* One device. Copies are the same context. */
class context
{
  public:
    /* "cpu", "cuda", "hip", or a full name; NULL: the first that answers. flags: TILE_CONTEXT_... */
    explicit context(const char *target = nullptr, std::uint32_t flags = 0, int device = 0)
    {
        tile_context_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.target = target;
        desc.flags = flags;
        desc.device = device;
        open(desc);
    }
    /* With every option, such as on_diagnostic. */
    explicit context(const tile_context_desc &desc) { open(desc); }

    tile_context *get() const noexcept { return context_.get(); }
    class module load(const char *path, const tile_module_desc *desc = nullptr) const;
    class module load_text(const char *name, const std::string &text, const tile_module_desc *desc = nullptr) const;
    void synchronize() const { detail::check(get(), tile_context_synchronize(get())); }
    void seal(bool sealed = true) const { detail::check(get(), tile_context_seal(get(), sealed)); }
    /* The variants that the sealed context refused, a line each. */
    std::string missing() const
    {
        std::string text(tile_context_missing(get(), nullptr, 0) + 1, '\0');
        tile_context_missing(get(), &text[0], text.size());
        text.pop_back();
        return text;
    }
    void copy(void *to, const void *from, std::size_t bytes, void *stream = nullptr) const
    { detail::check(get(), tile_copy(get(), to, from, bytes, stream)); }

  private:
    void open(const tile_context_desc &desc)
    {
        char why[1000] = "";
        tile_context *c = nullptr;
        tile_status status = tile_context_create_error(&desc, &c, why, sizeof why);
        if (status != TILE_OK) throw error(status, why);
        context_.reset(c, tile_context_destroy);
    }

    std::shared_ptr<tile_context> context_;
};

/* A tensor with row-major memory of its own on the context's device. Its contents are undefined at first. */
class tensor
{
  public:
    tensor(context ctx, tile_dtype dtype, std::initializer_list<std::int64_t> shape,
        tile_memory memory = TILE_MEMORY_DEVICE)
        : context_(std::move(ctx))
    {
        detail::check(context_.get(), tile_tensor_create(context_.get(), memory, dtype,
                                          static_cast<int>(shape.size()), shape.begin(), &tensor_));
    }
    tensor(tensor &&other) noexcept : context_(other.context_), tensor_(std::exchange(other.tensor_, nullptr))
    {
    }
    tensor &operator=(tensor &&other) noexcept
    {
        std::swap(context_, other.context_);
        std::swap(tensor_, other.tensor_);
        return *this;
    }
    ~tensor() { tile_tensor_destroy(context_.get(), tensor_); }

    const DLTensor *get() const noexcept { return tensor_; }
    void *data() const noexcept { return tensor_->data; }
    std::int64_t extent(int axis) const noexcept { return tensor_->shape[axis]; }
    std::size_t bytes() const noexcept
    {
        std::size_t n = tensor_->dtype.bits / 8u;
        for (int a = 0; a < tensor_->ndim; a++) n *= static_cast<std::size_t>(tensor_->shape[a]);
        return n;
    }
    /* All of the tensor from or to host memory, in stream order. */
    void from_host(const void *source, void *stream = nullptr)
    { context_.copy(data(), source, bytes(), stream); }
    void to_host(void *destination, void *stream = nullptr) const
    { context_.copy(destination, data(), bytes(), stream); }

  private:
    context context_;
    DLTensor *tensor_ = nullptr;
};

/* A tensor in memory of the caller's: address, extents, strides in elements (none: row-major). At most eight
 * axes. */
class view
{
  public:
    view(void *data, std::initializer_list<std::int64_t> shape,
        std::initializer_list<std::int64_t> strides = {}, tile_dtype dtype = TILE_NONE)
        : rank_(static_cast<std::int32_t>(shape.size())), strided_(strides.size() != 0), data_(data),
          dtype_(dtype)
    {
        if (shape.size() > shape_.size() || (strided_ && strides.size() != shape.size()))
            throw error(TILE_ERROR_SHAPE, "a view has at most eight axes, and as many strides as extents");
        std::size_t a = 0;
        for (std::int64_t n : shape) shape_[a++] = n;
        a = 0;
        for (std::int64_t n : strides) strides_[a++] = n;
    }
    tile_tensor get() const noexcept
    { return { data_, shape_.data(), strided_ ? strides_.data() : nullptr, rank_, dtype_ }; }

  private:
    std::array<std::int64_t, 8> shape_{}, strides_{};
    std::int32_t rank_;
    bool strided_;
    void *data_;
    tile_dtype dtype_;
};

/* In the place of an optional tensor that a launch leaves out. */
struct none_t {
};
constexpr none_t none{};

/* An argument of a launch. It borrows tensors and views for the time of the call. */
class arg
{
  public:
    arg(const tensor &t) : arg_(tile_arg_dltensor(t.get())) {}
    arg(const DLTensor *t) : arg_(tile_arg_dltensor(t)) {}
    arg(const DLTensor &t) : arg_(tile_arg_dltensor(&t)) {}
    arg(const view &v) : arg_(tile_arg_none()), tensor_(v.get()), is_view_(true) {}
    arg(none_t) : arg_(tile_arg_none()) {}
    template <class T, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0>
    arg(T value)
        : arg_(std::is_floating_point<T>::value ? tile_arg_float(static_cast<double>(value))
                                                : tile_arg_int(static_cast<std::int64_t>(value)))
    {
    }
    tile_arg get() const noexcept { return is_view_ ? tile_arg_tensor(&tensor_) : arg_; }

  private:
    tile_arg arg_;
    tile_tensor tensor_{};
    bool is_view_ = false;
};

/* A const, type, dimension or hint of a kernel and its value: { "T", TILE_F16 }, { "BLOCK", 64 },
 * { "CAUSAL", true }, { "EPS", 1e-5 }, or as on tilec's command line, { "T", "f16" }. The texts are borrowed
 * for the time of the call. */
class binding
{
  public:
    binding(const char *name, tile_dtype type) : b_{ name, TILE_BIND_DTYPE, {} } { b_.value.dtype = type; }
    binding(const char *name, const char *text) : b_{ name, TILE_BIND_TEXT, {} } { b_.value.text = text; }
    template <class T, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0>
    binding(const char *name, T value)
        : b_{ name,
              std::is_same<T, bool>::value       ? TILE_BIND_BOOL
              : std::is_floating_point<T>::value ? TILE_BIND_FLOAT
                                                 : TILE_BIND_INT,
              {} }
    {
        if (std::is_floating_point<T>::value) b_.value.f = static_cast<double>(value);
        else b_.value.i = static_cast<std::int64_t>(value);
    }
    const tile_binding &get() const noexcept { return b_; }

  private:
    tile_binding b_;
};

/* A kernel with bindings. The call operator launches on the default stream; arguments stand in the order of
 * the source. */
class kernel
{
  public:
    kernel(context ctx, tile_module *m, const char *name, std::initializer_list<binding> bindings)
        : context_(std::move(ctx))
    {
        std::vector<tile_binding> list;
        for (const binding &b : bindings) list.push_back(b.get());
        tile_kernel *k = nullptr;
        detail::check(context_.get(), tile_kernel_create(m, name, list.data(), list.size(), &k));
        kernel_.reset(k);
    }
    tile_kernel *get() const noexcept { return kernel_.get(); }

    template <class... Args> void operator()(const Args &...args) const { launch(nullptr, args...); }
    /* On a CUstream, hipStream_t or a stream of tile_stream_create. */
    template <class... Args> void launch(void *stream, const Args &...args) const
    { detail::check(context_.get(), try_launch(stream, args...)); }
    /* Throws nothing; tile_context_error has the text. */
    template <class... Args> tile_status try_launch(void *stream, const Args &...args) const noexcept
    {
        tile_launch_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.stream = stream;
        return with(
            [&](const tile_arg *a, std::size_t n) { return tile_launch(get(), a, n, &desc); }, arg(args)...);
    }
    /* Compiles for arguments like these. */
    template <class... Args> void compile(const Args &...args) const
    {
        detail::check(context_.get(),
            with([&](const tile_arg *a, std::size_t n) { return tile_kernel_compile(get(), a, n); },
                arg(args)...));
    }
    /* Compiles all variants of these extents; returns how many there are. */
    std::size_t prepare(std::initializer_list<tile_dim_range> extents) const
    {
        tile_prepare_desc desc = {};
        std::size_t n = 0;
        desc.struct_size = sizeof desc;
        desc.dims = extents.begin();
        desc.n_dims = extents.size();
        detail::check(context_.get(), tile_kernel_prepare(get(), &desc, &n));
        return n;
    }

  private:
    template <class F, class... Args> static tile_status with(const F &f, const Args &...args)
    {
        const std::array<tile_arg, sizeof...(Args)> list{ { args.get()... } };
        return f(list.data(), list.size());
    }

    context context_;
    std::unique_ptr<tile_kernel, detail::free_kernel> kernel_;
};

/* A source with its imports. Its kernels stay valid without it. */
class module
{
  public:
    module(context ctx, tile_module *m) :context_(std::move(ctx)), module_(m) {}
    tile_module *get() const noexcept { return module_.get(); }
    tile::kernel kernel(const char *name, std::initializer_list<binding> bindings = {}) const
    { return tile::kernel(context_, get(), name, bindings); }
    std::vector<std::string> names() const
    {
        std::vector<std::string> list;
        for (std::size_t i = 0; i < tile_module_kernel_count(get()); i++)
            list.push_back(tile_module_kernel_name(get(), i));
        return list;
    }

  private:
    context context_;
    std::unique_ptr<tile_module, detail::free_module> module_;
};

inline module context::load(const char *path, const tile_module_desc *desc) const
{
    tile_module *m = nullptr;
    detail::check(get(), tile_module_load_file(get(), path, desc, &m));
    return module(*this, m);
}

inline module context::load_text(
    const char *name, const std::string &text, const tile_module_desc *desc) const
{
    tile_module *m = nullptr;
    detail::check(get(), tile_module_load_memory(get(), name, text.data(), text.size(), desc, &m));
    return module(*this, m);
}

} // namespace tile
#endif
